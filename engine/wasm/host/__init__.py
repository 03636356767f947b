"""Host functions: what guests and the WASI library inside their components call."""
