"""The limit on open files of this process, and shares of it."""

import resource

MAX_OPEN_FILES = 65_536
_SHARE = 16


def fd_limit() -> int:
    """Return how many files this process may have open, connections among them."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MAX_OPEN_FILES if soft == resource.RLIM_INFINITY else soft


def share_of_files(most: int) -> int:
    """Return how many owners of a few files each may be open at once: at most `most`."""
    return max(1, min(most, fd_limit() // _SHARE))
