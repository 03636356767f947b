"""The `svc` command and the Console."""

import svc_tui.composition  # noqa: F401 - registers the lanes with the manifest


def version() -> str:
    """Return the version of the installed distribution."""
    # Reading a distribution's metadata takes longer than the rest of a start.
    from importlib.metadata import version

    return version("svc-tui")
