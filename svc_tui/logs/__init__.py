"""Reading and printing the request timeline."""
