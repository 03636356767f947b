"""Development: watch a Project, build on change and publish."""
