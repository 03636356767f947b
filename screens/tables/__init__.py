"""The Tables: rows of a Project in a grid, and changes of them."""
