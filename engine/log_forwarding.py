"""Warnings and faults of the engine itself, of which no request is told: on their way to whoever runs it."""

import logging
from collections.abc import Callable

LOGGERS = ("svc.control", "svc.server", "svc.timeline")
"""Who says so."""


class LogForwarder(logging.Handler):
    """Hands warnings and faults on, with where they happened; `tell` takes a level and a text."""

    def __init__(self, report: Callable[[str, str], None]) -> None:
        super().__init__(logging.WARNING)
        self._tell = report

    def install(self) -> None:
        """Hear of them from now on."""
        for name in LOGGERS:
            logging.getLogger(name).addHandler(self)

    def uninstall(self) -> None:
        """Hear of no more."""
        for name in LOGGERS:
            logging.getLogger(name).removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Take one."""
        self._tell(record.levelname.lower(), self.format(record))
