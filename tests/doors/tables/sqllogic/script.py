"""Reads files of the sqllogictest format (https://www.sqlite.org/sqllogictest/doc/trunk/about.wiki)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Sort = Literal["nosort", "rowsort", "valuesort"]
ENGINE = "sqlite"
_HASH = re.compile(r"(\d+) values hashing to ([0-9a-f]{32})")


class ScriptError(Exception):
    """A file is not of the format."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement with the expected outcome."""

    line: int
    sql: str
    succeeds: bool


@dataclass(frozen=True, slots=True)
class Query:
    """A query with its expected result: the values, or their count and MD5.

    `types` has a letter a column: T text, I integer, R real.
    """

    line: int
    sql: str
    types: str
    sort: Sort
    values: tuple[str, ...]
    count: int
    digest: str


Record = Statement | Query


def read_script(text: str) -> Iterator[Record]:
    """Yield the records that are meant for SQLite, in their order. Raises `ScriptError`."""
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        if not lines[at].strip() or lines[at].startswith("#"):
            at += 1
            continue
        first = at
        while at < len(lines) and lines[at].strip():
            at += 1
        block = [line for line in lines[first:at] if not line.startswith("#")]
        while block and block[0].split()[0] in ("skipif", "onlyif"):
            word, engine = block.pop(0).split()[:2]
            if (engine == ENGINE) is (word == "skipif"):
                block = []
        if not block:
            continue
        if block[0].split()[0] == "halt":
            return
        if block[0].split()[0] != "hash-threshold":
            yield _record(first + 1, block)


def _record(line: int, block: list[str]) -> Record:
    kind, *words = block[0].split()
    match kind, words:
        case "statement", ["ok" | "error", *_]:
            return Statement(line, "\n".join(block[1:]), words[0] == "ok")
        case "query", [types, *rest] if set(types) <= set("TIR"):
            return _query(line, types, rest, block[1:])
    raise ScriptError(f"line {line}: {block[0]!r} is no record")


def _query(line: int, types: str, words: list[str], body: list[str]) -> Query:
    sort: Sort = "nosort"
    match words[:1]:
        case ["rowsort"]:
            sort = "rowsort"
        case ["valuesort"]:
            sort = "valuesort"
    end = body.index("----") if "----" in body else len(body)
    values = tuple(body[end + 1 :])
    digest_match = _HASH.fullmatch(values[0]) if len(values) == 1 else None
    count, digest = (int(digest_match[1]), digest_match[2]) if digest_match else (len(values), "")
    return Query(line, "\n".join(body[:end]), types, sort, () if digest_match else values, count, digest)
