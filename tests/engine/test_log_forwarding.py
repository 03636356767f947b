"""Loggers of the engine and the Doors."""

import re
from pathlib import Path

from engine.log_forwarding import LOGGERS

ROOT = Path(__file__).parents[2]


def test_every_logger_is_forwarded_to_the_log_of_the_service() -> None:
    sources = [path.read_text() for folder in ("engine", "doors") for path in (ROOT / folder).rglob("*.py")]
    names = {name for text in sources for name in re.findall(r'getLogger\("(svc\.[a-z.]+)"\)', text)}
    assert names == set(LOGGERS)
