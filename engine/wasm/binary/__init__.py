"""Readers and writers of WebAssembly binaries."""
