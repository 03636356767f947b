"""Compiling components to machine code, and checking what they import."""
