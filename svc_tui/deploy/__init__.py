"""The deploy client: build a project, upload it and report progress."""
