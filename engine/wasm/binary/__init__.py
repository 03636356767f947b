"""Reading and rewriting WebAssembly binaries."""
