"""The development server: build, serve and rebuild one project."""
