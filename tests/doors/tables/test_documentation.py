"""`docs/reference/tables-api.md` says what the Door does."""

import re
from pathlib import Path

from doors.tables.door import TablesDoor
from doors.tables.guest import protocol, reader, session, writer
from doors.tables.guest.problem import KINDS
from doors.tables.sqlite.connections import MAX_BYTES, MAX_SQL, MAX_VALUE

TEXT = (Path(__file__).parents[3] / "docs" / "reference" / "tables-api.md").read_text()


def test_every_code_is_documented_with_its_status() -> None:
    rows = dict(re.findall(r"^\| `([a-z-]+)` \| (\d+) \|", TEXT, re.MULTILINE))
    assert rows == {code: str(kind.status) for code, kind in KINDS.items()}


def test_every_limit_is_documented() -> None:
    limits = dict(re.findall(r"^\| ([a-zA-Z ,`]+) \| ([^|`]+) \|$", TEXT, re.MULTILINE))
    assert limits["body of a request"] == f"{TablesDoor.max_body >> 20} MiB"
    assert limits["rows, JSON of a result"] == "10 000, 4 MiB"
    assert (session.MAX_ROWS, session.MAX_RESULT >> 20) == (10_000, 4)
    assert limits["one value, one row"] == f"{MAX_VALUE >> 20} MiB"
    assert limits["one statement"] == f"{MAX_SQL} bytes".replace("100000", "100 000")
    assert limits["statements of a batch"] == str(protocol.MAX_STATEMENTS)
    assert limits["a read"] == f"{reader.SECONDS:.0f} s"
    assert limits["a request that writes"].startswith(f"{writer.SECONDS:.0f} s")
    assert (
        limits["requests that wait to write"] == f"{writer.MAX_WAITING}, {writer.MAX_WAITING_BYTES >> 20} MiB"
    )
    assert limits["the file of a Project"] == f"{MAX_BYTES >> 30} GiB"
