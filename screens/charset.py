"""Whether the terminal is one for more than ASCII, as its locale says."""

import locale


def unicode() -> bool:
    """Return whether lines and signs outside of ASCII can be shown."""
    return locale.getencoding().replace("-", "").lower() == "utf8"
