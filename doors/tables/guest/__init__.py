"""The tables Door as guests see it: protocol, sessions and errors."""
