"""Which names in a folder are for the world to see: the one rule for packing and for serving.

Owns no file access.
"""

WELL_KNOWN = ".well-known"
MANIFEST = "svc.toml"


def hidden_name(name: str) -> bool:
    """Whether a file or folder is kept to its owner.

    That is a name that begins with a dot (except `.well-known`, RFC 8615), and the manifest.
    """
    return (name[:1] == "." and name != WELL_KNOWN) or name == MANIFEST


def served_name(name: str) -> bool:
    """Whether a file or folder of this name (one path segment) is served.

    Left out: hidden names, and those that no URL path can hold safely (control characters, backslashes,
    text that is not Unicode).
    """
    if not name or hidden_name(name):
        return False
    if name.isascii():
        return name.isprintable() and "\\" not in name
    return "\\" not in name and not any(
        c < " " or "\x7f" <= c < "\xa0" or "\ud800" <= c < "\ue000" for c in name
    )
