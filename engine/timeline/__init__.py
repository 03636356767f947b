"""The timeline: records of requests, printed lines and platform events."""
