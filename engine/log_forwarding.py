"""Forwarding of the engine's own warnings and errors, which belong to no request, to the operator's log."""

import logging
from collections.abc import Callable

_loggers = logging.getLogger("svc")
"""The parent of all loggers of the engine and the Doors."""


class LogForwarder(logging.Handler):
    """Forwards warnings and errors with their tracebacks; `report` receives a level and a text."""

    def __init__(self, report: Callable[[str, str], None]) -> None:
        super().__init__(logging.WARNING)
        self._report = report

    def install(self) -> None:
        _loggers.addHandler(self)

    def uninstall(self) -> None:
        _loggers.removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Forward one log record."""
        self._report(record.levelname.lower(), self.format(record))
