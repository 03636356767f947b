"""Runs sqllogictest files through the tables Door: `python -m tests.doors.tables.sqllogic.run FILE…`.

Guests may not change the schema, so that such statements go to the owner's connection; everything else is a
request to the Door. The last line is `records=<n> failed=<n> skipped=<n>`.
"""

import asyncio
import hashlib
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from doors.tables.door import TablesDoor
from tests.doors.tables.sqllogic.script import Query, Record, Statement, read_script
from tests.doors.tables.tables_door import Answer, Tables

_OWNER = {"create", "drop", "alter", "reindex", "analyze", "vacuum", "pragma"}
_NOT_HERE = {"begin", "commit", "rollback", "end", "savepoint", "release", "attach", "detach"}


@dataclass(slots=True)
class Tally:
    """The results of a file: failures name the line and the error."""

    records: int = 0
    skipped: int = 0
    failures: list[str] = field(default_factory=list)


def run_script(tables: Tables, name: str, text: str) -> Tally:
    """Run a whole file; failures do not end it."""
    tally = Tally()
    for record in read_script(text):
        tally.records += 1
        word = (record.sql.split() or [""])[0].lower()
        if word in _NOT_HERE:
            tally.skipped += 1
        elif failure := _run(tables, record, word):
            tally.failures.append(f"{name}:{record.line}: {failure}")
    return tally


def _run(tables: Tables, record: Record, word: str) -> str:
    if isinstance(record, Statement):
        error = _schema(tables, record.sql) if word in _OWNER else _refusal(tables.exec(record.sql))
        if record.succeeds and error:
            return error
        return "" if record.succeeds or error else "it succeeded, and should fail"
    return _check(record, tables.query_arrays(record.sql))


def _schema(tables: Tables, sql: str) -> str:
    try:
        tables.schema(sql)
    except Exception as error:
        return str(error)
    return ""


def _refusal(answer: Answer) -> str:
    return "" if answer.status == 200 else str(answer.document["detail"])


def _check(query: Query, answer: Answer) -> str:
    if answer.status != 200:
        return _refusal(answer)
    rows: list[list[Any]] = answer.document["rows"]
    if rows and len(rows[0]) != len(query.types):
        return f"{len(rows[0])} columns, and {len(query.types)} were expected"
    written = [[_written(value, kind) for value, kind in zip(row, query.types, strict=True)] for row in rows]
    if query.sort == "rowsort":
        written.sort()
    values = [value for row in written for value in row]
    if query.sort == "valuesort":
        values.sort()
    if query.digest:
        digest = hashlib.md5("".join(f"{value}\n" for value in values).encode()).hexdigest()
        same = (len(values), digest) == (query.count, query.digest)
        return "" if same else f"{len(values)} values hashing to {digest}"
    return "" if tuple(values) == query.values else f"{values}, and {list(query.values)} was expected"


def _written(value: Any, kind: str) -> str:
    """Return a value as the format has it."""
    if value is None:
        return "NULL"
    if kind == "I":
        return str(_number(value, int))
    if kind == "R":
        return f"{_number(value, float):.3f}"
    if isinstance(value, float):
        return repr(value)
    text = str(value)
    return "".join(c if " " <= c <= "~" else "@" for c in text) if text else "(empty)"


def _number(value: Any, kind: type) -> Any:
    try:
        return kind(value)
    except ValueError:
        return kind(0)


def run_files(paths: list[Path]) -> Tally:
    """Run files, each on a new project."""
    total = Tally()
    loop = asyncio.new_event_loop()
    with tempfile.TemporaryDirectory() as folder:
        for number, path in enumerate(paths):
            tables = Tables(Path(folder) / str(number), loop, TablesDoor())
            tables.folder.mkdir()
            tally = run_script(tables, path.name, path.read_text())
            tables.close()
            total.records += tally.records
            total.skipped += tally.skipped
            total.failures += tally.failures
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    return total


def main() -> None:
    if not sys.argv[1:]:
        sys.exit("usage: python -m tests.doors.tables.sqllogic.run FILE…")
    paths = [Path(name) for name in sys.argv[1:]]
    if missing := [str(path) for path in paths if not path.is_file()]:
        sys.exit(f"no such file: {', '.join(missing)}")
    tally = run_files(paths)
    for failure in tally.failures:
        print(failure)
    print(f"records={tally.records} failed={len(tally.failures)} skipped={tally.skipped}")
    sys.exit(bool(tally.failures))


if __name__ == "__main__":
    main()
