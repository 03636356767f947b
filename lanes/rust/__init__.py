"""The rust lane: cargo makes a wasi:http component of a crate."""
