"""Durable storage of a service: blobs, key-value pairs and logs behind three protocols, in one folder."""
