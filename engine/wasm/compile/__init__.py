"""Compilation of components to machine code, and checks of their imports."""
