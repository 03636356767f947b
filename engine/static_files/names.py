"""Rule that decides which file names are public, for packing and for serving."""

from engine.manifest import MANIFEST

WELL_KNOWN = ".well-known"


def is_hidden(name: str) -> bool:
    """Return whether a file or folder is private.

    Private are names with a leading dot (except `.well-known`, RFC 8615), and the manifest.
    """
    return (name[:1] == "." and name != WELL_KNOWN) or name == MANIFEST


def is_servable(name: str) -> bool:
    """Return whether a file or folder of this name (one path segment) is served.

    Not served are hidden names, and names that no URL path can hold safely: control characters, backslashes,
    text that is not Unicode.
    """
    if not name or is_hidden(name):
        return False
    if name.isascii():
        return name.isprintable() and "\\" not in name
    return "\\" not in name and not any(
        c < " " or "\x7f" <= c < "\xa0" or "\ud800" <= c < "\ue000" for c in name
    )
