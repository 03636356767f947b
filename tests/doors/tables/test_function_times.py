"""The time of one call of each SQL function with the largest values, which SQLite does not interrupt."""

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from doors.tables.api.query import MAX_VALUE_BYTES
from doors.tables.sqlite.connections import MAX_VALUE, Clock, Connection, Error, apsw, open_owner, open_reader
from engine.files.sql_functions import DENIED_FUNCTIONS, Work

MAX_SECONDS = 4.0
"""Processor time. It is about a second on a machine without other load."""
MANY = 120
_SKIPPED = DENIED_FUNCTIONS | {"match", "fts5", "rtreecheck", "sqlite_log"}
"""Functions that cannot be called as any other."""
_KEYS = ",".join(f'"{number:x}":1' for number in range(200_000))
_OTHER_KEYS = ",".join(f'"{number:x}":1' for number in range(1 << 28, (1 << 28) + 200_000))
_POINTS = ",".join(f"[{number % 2 * 100000},{number}]" for number in range(200_000))
_OTHER_POINTS = _POINTS.replace("100000", "100001")


def _polygon(points: str, size: int) -> str:
    cut = points[: size - 40]
    return f"[[0,-1],{cut[: cut.rindex('],[')]}],[-9,999999],[0,-1]]"


def _object(keys: str, size: int) -> str:
    cut = keys[: size - 10]
    return "{" + cut[: cut.rindex(",")] + "}"


def _worst(name: str, size: int) -> list[tuple[str, list[str | bytes | int]]]:
    """Return the calls of a function that take longest, as SQL and values of at most `size` bytes."""
    half, numbers = size // 2, "[" + "1," * (size // 2 - 3) + "1]"
    letters, needle = "a" * size, "a" * (half - 1) + "b"
    others = "".join(map(chr, range(98, 40_000)))[: size // 4]
    paths = f",{','.join(['?2'] * MANY)}"
    calls: dict[str, list[tuple[str, list[str | bytes | int]]]] = {
        "instr": [("instr(?, ?)", [letters, needle]), ("instr(?, ?)", [bytes(size), bytes(half) + b"b"])],
        "replace": [("replace(?, ?, '')", [letters, needle]), ("replace(?, 'a', 'b')", [letters])],
        "unhex": [("unhex(?, ?)", ["-" * size, others + "-"]), ("unhex(?)", ["0" * (half * 2)])],
        "like": [
            ("? like ?", [letters, "%" + "a" * 498 + "b"]),
            ("? like ?", ["é" * half, "%" + "é" * 248 + "b"]),
            ("? like ?", [letters, "%a_" * 165 + "b"]),
        ],
        "glob": [
            ("? glob ?", [letters, "*[!" + "b" * 490 + "]c"]),
            ("? glob ?", [letters, "*[b-" + "b-" * 240 + "a]c"]),
        ],
        "json_patch": [("json_patch(?, ?)", [_object(_KEYS, half), _object(_OTHER_KEYS, half)])],
        "geopoly_overlap": [
            ("geopoly_overlap(?, ?)", [_polygon(_POINTS, size), _polygon(_OTHER_POINTS, size)])
        ],
        "json_pretty": [("json_pretty(?, ?)", [numbers, " " * 100])],
        "json_remove": [(f"json_remove(?1{paths})", [numbers, "$[#-1]"])],
        "json_extract": [(f"json_extract(?1{paths})", [numbers, "$[#-1]"])],
        "json_array": [(f"json_array({','.join(['?1'] * MANY)})", ["\1" * size])],
        "concat": [(f"concat({','.join(['?1'] * MANY)})", [letters])],
        "printf": [("printf(?, ?)", ["%.999999g" * (size // 9), 1]), ("printf('%*d', ?, 1)", [size - 1])],
        "strftime": [("strftime(?, 0)", ["%f" * (size // 8)]), ("strftime(?, 0)", ["%J" * (size // 16)])],
        "randomblob": [("randomblob(?)", [size])],
        "zeroblob": [("zeroblob(?)", [size])],
    }
    calls |= {f"{side}trim": [(f"{side}trim(?, ?)", [letters, others + "a"])] for side in ("", "l", "r")}
    calls |= {
        "jsonb_patch": [(sql.replace("json_", "jsonb_"), values) for sql, values in calls["json_patch"]]
    }
    return calls.get(name, [])


def _calls(name: str, count: int, size: int) -> list[tuple[str, list[str | bytes | int]]]:
    """Return calls with values of at most `size` bytes, always of the same SQL."""
    return [*_worst(name, size), *_general(name, count, size)]


def _general(name: str, count: int, size: int) -> Iterator[tuple[str, list[str | bytes | int]]]:
    """Yield calls with large values of several kinds."""
    values: list[str | bytes] = [
        "1" * size,
        "é" * (size // 2),
        bytes(size),
        "[" + "1," * (size // 2 - 3) + "1]",
    ]
    for value in values:
        yield f"{name}({','.join(['?1'] * (count if count >= 0 else 3))})", [value]


def _seconds(connection: Connection, sql: str, values: list[str | bytes | int]) -> float:
    began = time.thread_time()
    with suppress(Error):  # The value of the function may be too large, and its arguments may be wrong.
        connection.execute(f"select length({sql})", values).fetchall()
    return time.thread_time() - began


LARGE = pytest.param(MAX_VALUE_BYTES, marks=[pytest.mark.nightly, pytest.mark.fuzz])


@pytest.mark.slow(seconds=12)
@pytest.mark.parametrize("limit", [MAX_VALUE, LARGE])
def test_no_function_computes_longer_than_about_a_second(
    tmp_path: Path, limit: int, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.db"
    open_owner(path).close()
    connection = open_reader(path, Clock())
    functions = connection.execute(
        "select distinct name, narg from pragma_function_list where type = 's' order by name, narg"
    ).fetchall()
    times = {}
    for name, count in functions:
        if name in _SKIPPED or not name[0].isalpha():
            continue
        work = Work()
        work.add(name)
        calls = _calls(name, count, limit)
        for number, (sql, _) in enumerate(calls):
            size = min(limit, work.max_value(sql)) - 100
            connection.limit(apsw.SQLITE_LIMIT_LENGTH, size + 100)
            _, values = _calls(name, count, size)[number]
            times[f"{name}: {sql[:40]}"] = _seconds(connection, sql, values)
    connection.close()
    worst = sorted(times, key=lambda each: times[each], reverse=True)[:10]
    with capsys.disabled():
        print("", *(f"{times[each]:6.3f} s  {each}" for each in worst), sep="\n")
    assert times[worst[0]] < MAX_SECONDS
