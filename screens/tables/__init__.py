"""The Tables: rows of a project in a grid, and changes of them."""
