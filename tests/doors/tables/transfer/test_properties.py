"""Round trips of random tables and values."""

import io
import json
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from doors.tables.files import csv_file
from doors.tables.files.exporter import save
from doors.tables.files.format import FORMATS, Format
from doors.tables.files.importer import load
from doors.tables.files.text_reader import FileLines
from doors.tables.schema.apply import apply
from doors.tables.schema.change import CreateTable
from doors.tables.sqlite.catalog import Column
from doors.tables.sqlite.connections import open_owner
from doors.tables.sqlite.errors import Connection, Value, fold, quoted, rows
from doors.tables.types.registry import TYPES
from tests.support.examples import examples

TEXT = st.text(st.characters(codec="utf-8"), max_size=20) | st.sampled_from(
    ['"', ",", "\r\n", "\n", "", "null", "'"]
)
NAMES = st.text(st.sampled_from(list("aBé名;,\"'[]`.")), min_size=1, max_size=4)
NESTED = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)


def timestamp_text(at: datetime) -> str:
    return at.replace(tzinfo=UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def values(type: str) -> st.SearchStrategy[Value]:
    strategies: dict[str, st.SearchStrategy[Value]] = {
        "integer": st.integers(-(2**63), 2**63 - 1),
        "real": st.floats(allow_nan=False),
        "text": TEXT,
        "boolean": st.integers(0, 1),
        "timestamp": st.datetimes().map(timestamp_text),
        "date": st.dates().map(str),
        "json": NESTED.map(lambda value: json.dumps(value, ensure_ascii=False)),
        "blob": st.binary(max_size=20),
    }
    return st.none() | strategies[type]


@st.composite
def tables(draw: st.DrawFn) -> tuple[CreateTable, list[tuple[Value, ...]]]:
    types = draw(st.lists(st.sampled_from(sorted(TYPES)), min_size=1, max_size=5))
    names = draw(st.lists(NAMES, min_size=len(types), max_size=len(types), unique_by=fold))
    columns = tuple(Column(name, type) for name, type in zip(names, types, strict=True))
    table_rows = draw(st.lists(st.tuples(*(values(type) for type in types)), max_size=8))
    return CreateTable("t", columns), table_rows


def exported(database: Connection, format: Format) -> bytes:
    output = io.BytesIO()
    list(save(database, output, format, ["t"]))
    return output.getvalue()


@settings(max_examples=examples(60), deadline=None)
@given(tables(), st.sampled_from(FORMATS))
def test_export_import_export_is_byte_identical(
    table_and_rows: tuple[CreateTable, list[tuple[Value, ...]]], format: Format
) -> None:
    table, table_rows = table_and_rows
    with TemporaryDirectory() as folder:
        first, second = open_owner(Path(folder) / "a.db"), open_owner(Path(folder) / "b.db")
        try:
            first.execute("pragma synchronous = off")
            second.execute("pragma synchronous = off")
            apply(first, [table])
            first.executemany(f"insert into t values ({', '.join('?' * len(table.columns))})", table_rows)
            data = exported(first, format)
            into = {} if format in ("sql", "db") else {"table": "t"}
            if into:
                apply(second, [table])
            list(load(second, io.BytesIO(data), format, **into))
            assert exported(second, format) == data
            exact = [quoted(column.name) for column in table.columns if column.type != "json"]
            if exact:
                query = f"select {', '.join(exact)} from t order by rowid"
                assert rows(second, query) == rows(first, query)
        finally:
            first.close()
            second.close()


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.lists(st.none() | TEXT, min_size=2, max_size=2), max_size=5))
def test_csv_rows_round_trip(table_rows: list[list[str | None]]) -> None:
    text = csv_file.format_row(["a", "b"]) + "".join(map(csv_file.format_row, table_rows))
    names, read = csv_file.read(FileLines(io.BytesIO(text.encode())))
    assert names == ["a", "b"]
    assert [cells for _, cells in read] == table_rows
