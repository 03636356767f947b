"""Jobs of deployed and developed projects: when they are due, and their requests."""
