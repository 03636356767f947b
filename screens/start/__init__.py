"""Start screen, shown outside of any project."""
