"""The WASI library inside components, in Rust: its sources, `library.wasm`, and the build."""
