"""The timeline: what happened, request by request."""
