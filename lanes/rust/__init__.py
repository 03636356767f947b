"""The rust lane: cargo to a wasi:http component."""
