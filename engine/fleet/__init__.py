"""Services on several machines: NATS JetStream as storage."""
