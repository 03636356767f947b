"""Screens of the Console. They are clients of the control API and do not import the engine."""
