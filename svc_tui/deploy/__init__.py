"""The deploy client: build a Project, upload it and report progress."""
