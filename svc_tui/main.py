"""The `svc` command."""


def main() -> None:
    """Run `svc`."""
