"""Round trips of random tables and values."""

import io
import json
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import example, given, settings
from hypothesis import strategies as st

from doors.tables.files import csv_file
from doors.tables.files.exporter import save
from doors.tables.files.format import FORMATS, FileLines, Format
from doors.tables.files.importer import load
from doors.tables.guest.session import never
from doors.tables.schema.change import CreateTable, apply
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
    return b"".join(save(database, never, format, ["t"]))


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
            into = "" if format in ("sql", "db") else "t"
            if into:
                apply(second, [table])
            list(load(second, io.BytesIO(data), format, table=into))
            assert exported(second, format) == data
            exact = [quoted(column.name) for column in table.columns if column.type != "json"]
            if exact:
                query = f"select {', '.join(exact)} from t order by rowid"
                assert rows(second, query) == rows(first, query)
        finally:
            first.close()
            second.close()


def texts(*samples: str) -> st.SearchStrategy[str]:
    return st.sampled_from(samples)


NUMBERS = texts(
    "5", "-0", "0.0", "9.5", "1.10", "1E5", "2e10", "45e76582", "1e400", "9e999", "inf", "nan", "1e-7"
)
NUMBERS |= texts(
    "007", "+1", "1_000", "0.123456789012345678", "9007199254740993", "1e-400", "1e-999999999999999999999"
)
MOMENTS = texts(
    "2024-01-01", "2024-01-01T10:00:00.123456Z", "2024-01-01T10:00:00.120000Z", "2024-01-01 10:00"
)
MOMENTS |= texts("2024-01-01T10:00:00+02:00", "2024-01-01T10:00:00+00:00", "2024-01-01T24:00", "10:00")
FLAGS = texts("true", "TRUE", "False", "t", "yes", "0", "1", "on")
DOCUMENTS = texts(
    "{}",
    "[1.10]",
    "[1e400]",
    '{"a":"\\ud83d"}',
    "[NaN]",
    "null",
    '{"a": 12345678901234567890}',
    "[" * 1200 + "]" * 1200,
)
CELLS = [NUMBERS, st.integers().map(str), st.floats().map(repr), MOMENTS, st.datetimes().map(timestamp_text)]
CELLS += [FLAGS, DOCUMENTS, TEXT, st.text(st.characters(codec="ascii"), max_size=3)]


def is_spelling(text: str, written: str) -> bool:
    """Return whether an import may write a text in another way: `5` as a real, a moment, `TRUE`."""
    if written in (text, f"{text}.0", text.lower()) or written.replace("e-0", "e-") == text:
        return True
    moments = (datetime.fromisoformat(each.replace("Z", "+00:00")) for each in (text, written))
    return len({each.replace(tzinfo=each.tzinfo or UTC) for each in moments}) == 1 and "+02" not in text


def created(database: Connection, data: bytes, format: Format) -> bytes:
    database.execute("drop table if exists t")
    list(load(database, io.BytesIO(data), format, table="t"))
    return exported(database, format)


@settings(max_examples=examples(60), deadline=None)
@given(st.sampled_from(CELLS).flatmap(lambda cells: st.lists(st.none() | cells, min_size=1, max_size=4)))
def test_created_table_gives_the_texts_of_its_csv_file(cells: list[str | None]) -> None:
    data = "".join(csv_file.format_row([cell]) for cell in ["a", *cells]).encode()
    with TemporaryDirectory() as folder, closing(open_owner(Path(folder) / "a.db")) as database:
        first = created(database, data, "csv")
        _, written = csv_file.read(FileLines(io.BytesIO(first)))
        for cell, (_, (text,)) in zip(cells, written, strict=True):
            assert cell == text or (cell is not None and text is not None and is_spelling(cell, text))
        assert created(database, first, "csv") == first


JSON_NUMBERS = texts(
    "5", "-0", "1.10", "1E5", "45e76582", "0.123456789012345678", "18446744073709551615", "9e999"
)


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(
        st.sampled_from(CELLS).flatmap(lambda cells: cells.map(json.dumps))
        | JSON_NUMBERS
        | NESTED.map(json.dumps)
        | texts('"\\ud83d"', '{"a": 1.10, "\\ude00": 45e76582}'),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from(["json", "jsonl"]),
)
@example([json.dumps("[" * 1200), "5"], "json")
def test_created_table_gives_the_values_of_its_json_file(cells: list[str], format: Format) -> None:
    text = ",\n".join(f'{{"a": {cell}}}' for cell in cells)
    data = f"[{text}]" if format == "json" else text.replace(",\n", "\n")
    with TemporaryDirectory() as folder, closing(open_owner(Path(folder) / "a.db")) as database:
        first = created(database, data.encode(), format)
        rows_text = first.decode() if format == "json" else f"[{','.join(first.decode().splitlines())}]"
        for cell, row in zip(
            cells, json.loads(rows_text, parse_float=Decimal, parse_int=Decimal), strict=True
        ):
            value = json.loads(cell, parse_float=Decimal, parse_int=Decimal)
            if row["a"] != value:
                assert isinstance(value, str) and is_spelling(value, row["a"])
        assert created(database, first, format) == first


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.lists(st.none() | TEXT, min_size=2, max_size=2), max_size=5))
def test_csv_rows_round_trip(table_rows: list[list[str | None]]) -> None:
    text = csv_file.format_row(["a", "b"]) + "".join(map(csv_file.format_row, table_rows))
    names, read = csv_file.read(FileLines(io.BytesIO(text.encode())))
    assert names == ["a", "b"]
    assert [cells for _, cells in read] == table_rows
