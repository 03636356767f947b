"""The Console: the Textual application, its connection to an engine, and its browser mode."""
