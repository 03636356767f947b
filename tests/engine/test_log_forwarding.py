"""Loggers of the engine and the Doors."""

import logging
import re
from pathlib import Path

from engine.log_forwarding import LogForwarder

ROOT = Path(__file__).parents[2]


def test_every_logger_is_forwarded_to_the_log_of_the_service() -> None:
    sources = [path.read_text() for folder in ("engine", "doors") for path in (ROOT / folder).rglob("*.py")]
    names = {name for text in sources for name in re.findall(r'= logging.getLogger\("(.+)"\)', text)} - {
        "svc"
    }
    reported: list[tuple[str, str]] = []
    forwarder = LogForwarder(lambda level, text: reported.append((level, text)))
    forwarder.install()
    try:
        for name in names:
            logging.getLogger(name).warning("of %s", name)
            logging.getLogger(name).info("not forwarded")
    finally:
        forwarder.uninstall()
    assert len(names) >= 6 and sorted(reported) == sorted(("warning", f"of {name}") for name in names)
