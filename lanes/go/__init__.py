"""The go lane: mainline Go to a wasi:http component."""
