"""Development: watch a project, build on change and publish."""
