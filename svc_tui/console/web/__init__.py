"""The Console in a browser: a page, who may see it, and a process for everyone who does."""
