"""Whether the terminal is one for more than ASCII, as its locale says."""

import locale
import os

_NAMES = ("LC_ALL", "LC_CTYPE", "LANG")
_PLAIN = ("C", "POSIX")


def unicode() -> bool:
    """Return whether lines and signs outside of ASCII can be shown.

    Where LANG is C, Python takes C.UTF-8 instead and says so in LC_CTYPE (PEP 538), to read files by. What
    the terminal shows is what LANG says; where nothing says anything, most terminals show everything.
    """
    said = [value for name in _NAMES if (value := os.environ.get(name))]
    if said == ["C.UTF-8", *said[1:]] and len(said) > 1 and said[1] in _PLAIN:
        return False
    return locale.getencoding().replace("-", "").lower() == "utf8"
