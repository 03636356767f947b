"""Host functions, one file a WASI interface family."""
