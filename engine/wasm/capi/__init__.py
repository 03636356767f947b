"""Bindings to the wasmtime C API: the only code that handles raw memory."""
