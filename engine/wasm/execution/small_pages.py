"""Small pages for the memory of guests (prctl(2)).

Transparent huge pages would take 2 MiB for one touched byte, and hide the growth of a run.
"""

import ctypes
from pathlib import Path

_SETTING = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_PR_SET_THP_DISABLE = 41


def use_small_pages() -> None:
    """Disable transparent huge pages in this process if the system uses them everywhere."""
    try:
        always = "[always]" in _SETTING.read_text()
    except OSError:
        return
    if always:
        ctypes.CDLL(None).prctl(_PR_SET_THP_DISABLE, 1, 0, 0, 0)
