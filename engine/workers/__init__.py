"""Worker processes that serve requests in parallel."""
