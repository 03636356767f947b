"""WebAssembly components on the `wasi:http` contract: one fresh, metered instance per request."""
