"""Accounts, sessions, tokens and login."""
