"""Row identity, and changes of rows with optimistic concurrency control."""
