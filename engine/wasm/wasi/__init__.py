"""Host functions of WASI 0.2, one module per interface family."""
