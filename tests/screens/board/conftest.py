"""Fixtures for the Board of a real project in development."""

from tests.screens.dev_project import root, shop

__all__ = ["root", "shop"]
