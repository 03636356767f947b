"""Pre-initialization: runs a module's start-up once and stores the resulting state in the module."""
