"""The limit on open files of this process, and shares of it."""

import resource

MAX_OPEN_FILES = 65_536
_SHARE = 8
"""One in eight descriptors is for each kind of files that projects have open."""


def fd_limit() -> int:
    """Return how many files this process may have open, connections among them."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MAX_OPEN_FILES if soft == resource.RLIM_INFINITY else soft


def share_of_files(files: int) -> int:
    """Return how many owners of one kind, with so many files each, may have theirs open at once."""
    return max(1, fd_limit() // _SHARE // files)
