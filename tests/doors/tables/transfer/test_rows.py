import io
from collections.abc import Iterator

import pytest

from doors.tables.files import importer as table_rows
from doors.tables.files.exporter import save
from doors.tables.files.format import MAX_RECORD, FileProgress, Format
from doors.tables.files.importer import load
from doors.tables.guest.session import never
from doors.tables.schema.change import CreateTable, apply
from doors.tables.sqlite.catalog import Column, read
from doors.tables.sqlite.errors import Connection, TablesError, rows, scalar
from doors.tables.types.infer import preview

USERS = CreateTable(
    "users",
    (
        Column("id", "integer", primary_key=True),
        Column("name", "text", nullable=False, default="'stranger'"),
        Column("age", "integer"),
        Column("at", "timestamp", nullable=False, default="now()"),
        Column("extra", "json"),
        Column("photo", "blob"),
        Column("ok", "boolean"),
        Column("score", "real", unique=True),
    ),
)


@pytest.fixture
def users(database: Connection) -> Connection:
    apply(database, [USERS])
    database.execute("insert into users (id, name) values (1, 'ada')")
    return database


def import_data(database: Connection, data: str | bytes, format: Format, **how: object) -> list[FileProgress]:
    raw = data if isinstance(data, bytes) else data.encode()
    return list(load(database, io.BytesIO(raw), format, **how))  # type: ignore[arg-type]


def refused_import(database: Connection, data: str | bytes, format: Format, **how: object) -> str:
    before = dict(read(database)), rows(database, "select * from users")
    with pytest.raises(TablesError) as exc_info:
        import_data(database, data, format, **({"table": "users"} | how))
    assert (dict(read(database)), rows(database, "select * from users")) == before
    return f"{exc_info.value.message}\n{exc_info.value.hint}"


def test_import_appends_or_replaces_rows(users: Connection) -> None:
    import_data(users, "NAME,age\nbob,5\n\ncy,\n", "csv", table="USERS")
    assert rows(users, "select id, name, age from users") == [
        (1, "ada", None),
        (2, "bob", 5),
        (3, "cy", None),
    ]
    import_data(users, "id,name\r\n7,dee\r\n", "csv", table="users", replace=True)
    assert rows(users, "select id, name from users") == [(7, "dee")]


def test_null_in_required_column_takes_default(users: Connection) -> None:
    import_data(users, 'name,at\n,\n"",2024-01-01\n', "csv", table="users")
    import_data(users, '{"at": null}\n{"name": null, "age": 1}\n', "jsonl", table="users")
    assert rows(users, "select name from users where id > 1") == [
        ("stranger",),
        ("",),
        ("stranger",),
        ("stranger",),
    ]
    assert scalar(users, "select count(*) from users where at is not null") == 5


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the file is empty"),
        ("name,name\n", "line 1: two columns are named name"),
        ("name,Name\n", "line 1: two columns are named Name"),
        ("name,\n", "line 1: column 2 has no name"),
        (",name,age\n0,a,1\n", "column 1 has no name\nName every column in the first line. pandas writes"),
        ("sep=;\nname;age\na;1\n", "column 2 has no name\nThis line is for Excel"),
        ("name,nick\na,b\n", "line 1: table users has no column nick\nAvailable: id, name, age"),
        ("name,age\nx\n", "line 2: there is 1 cell for 2 columns"),
        ("name,age\na,1\n\nx,1,2\n", "line 4: there are 3 cells for 2 columns"),
        ('name,age\n"a\nb",1\n"c,2\n', "line 4: a quote is never closed"),
        ('name,age\n5" disk,1\nb"c,2\n', "line 2: unexpected quote"),
        ('name,age\n"a"b,1\n', "line 2: unexpected quote"),
        ("name,age\na\rb,1\n", "line 2: a carriage return"),
        ("name\ra\rb\r", "line 1: a carriage return"),
        (b"name,age\na,1\ncaf\xe9,2\n", "line 3: the byte 0xe9 is not UTF-8"),
        (b'name,age\n"a\n\n\xff",1\n', "line 4: the byte 0xff is not UTF-8"),
        ("name\n".encode("utf-16"), "iconv -f UTF-16 -t UTF-8"),
        ("age\n1\n1.5\n", 'line 3: in column age, which is integer, "1.5" is not a whole number'),
        ("age\n9223372036854775808\n", "line 2: in column age"),
        ("at\nyesterday\n", "line 2: in column at"),
        ("extra\n{\n", "line 2: in column extra"),
        ("photo\n*\n", "line 2: in column photo"),
        ("ok\nperhaps\n", "line 2: in column ok"),
        ("score\nnan\n", "line 2: in column score"),
        ("score\n45e76582\n", 'in column score, which is real, "45e76582" is beyond the range of a real'),
        ("score\n0.123456789012345678\n", "has more digits than a real can hold"),
        ("score\n1e-400\n", "has more digits than a real can hold"),
        ("at\n2024-01-01T00:00:00.123456Z\n", "has digits beyond milliseconds"),
        ("id,name\n2,a\n1,b\n", "line 3: UNIQUE constraint failed: users.id"),
        ("name,score\na,1\nb,2\nc,1.0\n", "line 4: UNIQUE constraint failed: users.score"),
        ("name\n" + "x" * ((1 << 20) + 1), "line 2: in column name"),
        ("name\n" + "é" * ((1 << 19) + 1), "has more than 1 MiB"),
        ('name\n"' + ("x" * 999 + "\n") * (MAX_RECORD // 1000 + 1), "line 2: the row has more than 8 MiB"),
        ("name\n" + "x" * (MAX_RECORD + 1), "line 2: the row has more than 8 MiB"),
    ],
    ids=range(34),
)
def test_invalid_csv_is_refused_with_line(users: Connection, data: str | bytes, message: str) -> None:
    assert message in refused_import(users, data, "csv")


def test_csv_dialects_are_accepted(users: Connection) -> None:
    for data in [
        "\ufeffname;age\na;1\n",
        "name\tage\r\na\t1",
        "name|age\na|1\n",
        '"name","age"\n"a","1"',
        "name,age\na,+1\n\n\n",
        "\ufeff" + '"name",age\n"a",1\r\n',
    ]:
        import_data(users, data, "csv", table="users", replace=True)
        assert rows(users, "select name, age from users") == [("a", 1)]
    cell = 'x" ,\r\n\n\0' + "y" * 300_000
    import_data(users, 'name\n"' + cell.replace('"', '""') + '"\n', "csv", table="users", replace=True)
    assert rows(users, "select name from users") == [(cell,)]


def test_empty_line_in_single_column_csv_is_a_row(database: Connection) -> None:
    apply(database, [CreateTable("one", (Column("a", "text"),))])
    import_data(database, 'a\n\nx\n""\n', "csv", table="one")
    assert rows(database, "select a from one") == [(None,), ("x",), ("",)]


@pytest.mark.parametrize("format", ["json", "jsonl"])
@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('{"name": "a", "nick": 1}', "table users has no column nick"),
        ('{"name": "a", "NAME": "b"}', "a row names NAME twice"),
        ('{"name": "a", "name": "a"}', "a row names name twice"),
        ('{"age": 1.50}', "1.50 has a fraction"),
        ('{"age": 9223372036854775808}', "is beyond 64 bits"),
        ('{"age": 1' + "0" * 5000 + "}", "in column age"),
        ('{"age": true}', "is true or false"),
        ('{"age": [1]}', "[1] is an array"),
        ('{"age": {}}', "is an object"),
        ('{"at": 5}', "is a number, not a timestamp"),
        ('{"photo": "*"}', "is not base64"),
        ('{"ok": 2}', "2 is neither true nor false"),
        ('{"score": 9007199254740993}', "more digits"),
        ('{"score": 0.123456789012345678}', "0.123456789012345678 has more digits"),
        ('{"score": 1e400}', "1e400 is beyond the range of a real"),
        ('{"name": "\\ud800"}', "half of a character"),
        ('{"score": NaN}', "NaN is not a JSON number"),
        ('{"name": "a",}', "a name in double quotes was expected"),
        ('{"name" "a"}', "a colon was expected after name"),
        ('{"name": "a" "b": 1}', "a comma was expected after the value of name"),
        ('{"name": }', "a value was expected"),
        ('{"name": "a\nb"}', ""),
        ("{'name': 1}", "a name in double quotes was expected"),
        ("[1]", "a row is not an object"),
        ("5", "a row is not an object"),
        ('{"extra": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deeply"),
        ('{"id": 1}', "UNIQUE constraint failed: users.id"),
    ],
    ids=range(27),
)
def test_invalid_json_row_is_refused_with_line(
    users: Connection, format: Format, row: str, message: str
) -> None:
    good = '{"name": "x"}'
    data = f"{good}\n\n{row}\n" if format == "jsonl" else f"[{good},\n\n{row}\n]"
    text = refused_import(users, data, format)
    assert message in text
    assert text.startswith("line 3: ")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("", "the file ends where [ was expected"),
        ("{}", "'{' stands where [ was expected"),
        ("[", "line 1: the file ends where a row was expected"),
        ('[{"name": "a"},\n', "line 2: the file ends where a row was expected"),
        ('[{"name": "a"}', "the file ends where , or ] was expected"),
        ('[{"name": "a"}{', "'{' stands where , or ] was expected"),
        ('[{"name": "a"},]', "a row is not an object"),
        ('[{"name": "a"}] x', "unexpected text after the array"),
        ("[{}\n,\n{]", "line 3: a name in double quotes was expected"),
        (b'[\n{"name": "\xff"}]', "line 2: the byte 0xff is not UTF-8"),
        ('[{"name": "' + "x" * (MAX_RECORD + 100_000), "line 1: the row has more than 8 MiB"),
    ],
    ids=range(11),
)
def test_invalid_json_array_is_refused(users: Connection, data: str | bytes, message: str) -> None:
    assert message in refused_import(users, data, "json")


def test_json_rows_across_chunk_boundaries_are_read(users: Connection) -> None:
    many = ",\n".join(
        f'{{"name": "{"é" * (n % 50)}{n}", "extra": {{"n": [{n}, 1.00]}}}}' for n in range(5000)
    )
    import_data(users, f" [ {many} ] ", "json", table="users", replace=True)
    assert scalar(users, "select count(*) from users") == 5000
    assert rows(users, "select extra from users where name glob '*é4999'") == [('{"n":[4999,1.00]}',)]
    import_data(users, "\ufeff[]", "json", table="users", replace=True)
    assert scalar(users, "select count(*) from users") == 0


def test_rows_are_invisible_until_import_completes(users: Connection) -> None:
    data = io.BytesIO(b"name\n" + b"x\n" * 50_000)
    progress_steps = load(users, data, "csv", table="users")
    counts = []
    for progress in progress_steps:
        counts.append((progress.rows, progress.bytes))
        other = Connection(users.filename)
        assert scalar(other, "select count(*) from users") in (1, 50_001)
        other.close()
    assert counts[0] == (1000, counts[0][1])
    assert counts[-1] == (50_000, len(data.getvalue()))
    assert progress.total == len(data.getvalue())


def test_concurrent_write_during_import_succeeds(users: Connection) -> None:
    data = io.BytesIO(b"name\n" + b"x\n" * 5_000)
    progress_steps = load(users, data, "csv", table="users")
    next(progress_steps)
    other = Connection(users.filename)
    other.execute("insert into users (name) values ('meanwhile')")
    other.close()
    list(progress_steps)
    assert scalar(users, "select count(*) from users") == 5002


@pytest.mark.parametrize("steps", [1, 5, 6])
def test_closed_import_leaves_nothing(users: Connection, steps: int) -> None:
    progress_steps = load(users, io.BytesIO(b"a,b\n" + b"x,y\n" * 5_000), "csv", table="fresh")
    for _ in range(steps):
        next(progress_steps)
    assert isinstance(progress_steps, Iterator)
    progress_steps.close()  # type: ignore[attr-defined]
    assert list(read(users)) == ["users"]
    assert not users.in_transaction


def test_import_on_full_disk_leaves_nothing(users: Connection) -> None:
    users.execute(f"pragma max_page_count = {scalar(users, 'pragma page_count') + 5}").fetchall()
    assert "the disk is full" in refused_import(users, "name\n" + "x" * 100_000, "csv")
    users.execute("pragma max_page_count = 100000").fetchall()


def test_invalid_import_target_is_refused(users: Connection) -> None:
    users.execute("create view v as select * from users")
    users.execute("create table c (a integer references users(id))")
    users.execute("create table g (a integer, b as (a + 1))")
    assert "v is not a table" in refused_import(users, "a\n1\n", "csv", table="v")
    assert "reserved" in refused_import(users, "a\n1\n", "csv", table="_svc_x")
    assert "reserved" in refused_import(users, "a\n1\n", "csv", table="sqlite_schema")
    assert "does not name its table" in refused_import(users, "a\n1\n", "csv", table="")
    assert "would refer to a missing row" in refused_import(users, "a\n5\n", "csv", table="c")
    assert "column b of table g is computed" in refused_import(users, "a,b\n1,2\n", "csv", table="g")
    assert "a column cannot be named 'rowid'" in refused_import(users, "rowid\n1\n", "csv", table="new")
    assert "the file has no rows" in refused_import(users, "", "jsonl", table="new")


def test_computed_columns_are_not_exported(users: Connection) -> None:
    users.execute("create table g (a integer, b as (a + 1)); insert into g values (1)")
    assert b"".join(save(users, never, "csv", ["g"])) == b"a\n1\n"


def test_view_can_be_exported(users: Connection) -> None:
    users.execute("create view v as select upper(name) as name, at from users")
    assert b"".join(save(users, never, "csv", ["v"])).startswith(b"name,at\nADA,20")


def test_csv_types_are_inferred_from_all_rows(database: Connection) -> None:
    text = (
        "id,int,big,zero,num,bool,when,day,doc,mixed,none\n"
        "1,-5,9223372036854775807,007,1,true,2024-01-01 10:00,2024-01-01,{},1,\n"
        "2,0,9223372036854775808,1,1500.5,FALSE,2024-01-01T10:00:00+00:00,2024-01-02,[1],x,\n"
        "9,,,,,,,,,,\n"
    )
    result = preview(io.BytesIO(text.encode()), "csv")
    assert [column.type for column in result.columns] == [
        "integer",
        "integer",
        "text",
        "text",
        "real",
        "boolean",
        "timestamp",
        "date",
        "json",
        "text",
        "text",
    ]
    assert [column.name for column in result.columns if column.primary_key] == ["id"]
    assert result.count == 3
    assert result.rows[0][:3] == ("1", "-5", "9223372036854775807")
    assert result.rows[2][1:] == (None,) * 10
    import_data(database, text, "csv", table="t")
    assert rows(database, 'select num, bool, "when" from t where id = 2') == [
        (1500.5, 0, "2024-01-01T10:00:00.000Z")
    ]


def test_json_types_are_inferred_from_json_values(database: Connection) -> None:
    text = (
        '{"id": 3, "int": 1, "num": 1, "flag": true, "when": "2024-01-01T10:00Z", "doc": {}, "mix": 1, '
        '"s": "5"}\n'
        '{"int": null, "num": 0.5, "mix": "x", "s": "true", "late": "z", "huge": 1e400, "id": 2, '
        '"long": 18446744073709551615, "half": "\\ud83d", "cut": 0.123456789012345678}\n'
    )
    result = preview(io.BytesIO(text.encode()), "jsonl")
    types = {column.name: column.type for column in result.columns}
    assert types == {
        "id": "integer",
        "int": "integer",
        "num": "real",
        "flag": "boolean",
        "when": "timestamp",
        "doc": "json",
        "mix": "json",
        "s": "text",
        "late": "text",
        "huge": "json",
        "long": "json",
        "half": "json",
        "cut": "json",
    }
    assert not any(column.primary_key for column in result.columns)
    import_data(database, text, "jsonl", table="t")
    assert rows(database, "select mix, late from t") == [("1", None), ('"x"', "z")]
    assert rows(database, "select huge, long, half, cut from t")[1] == (
        "1e400",
        "18446744073709551615",
        '"\\ud83d"',
        "0.123456789012345678",
    )


def test_preview_key_requires_unique_ascending_integers(database: Connection) -> None:
    for text in ("id\n2\n1\n", "id\n1\n1\n", "id,a\n1,x\n,y\n", "id\nx\n"):
        assert not preview(io.BytesIO(text.encode()), "csv").columns[0].primary_key
        import_data(database, text, "csv", table="t")
        database.execute("drop table t")


def test_import_fills_columns_by_their_names(database: Connection) -> None:
    columns = (Column("b", "text"), Column("a", "real"), Column("c", "blob"))
    apply(database, [CreateTable("t", columns)])
    import_data(database, "a,b\n1,2\n", "csv", table="t")
    assert rows(database, "select b, a, c from t") == [("2", 1.0, None)]


def test_numbers_beyond_64_bits_need_a_column_that_stores_them(database: Connection) -> None:
    database.execute("create table loose (i integer, r real); create table held (r real) strict")
    import_data(database, '{"r": 1180591620717411303424}\n', "jsonl", table="held")
    assert rows(database, "select r from held") == [(2.0**70,)]
    with pytest.raises(TablesError, match="line 1: in column i, which is integer, 1000"):
        import_data(database, '{"i": 10000000000000000000000000}\n', "jsonl", table="loose")
    import_data(database, "i\n10000000000000000000000000\n", "csv", table="loose")
    assert rows(database, "select typeof(i) from loose") == [("real",)]


def test_numbers_with_an_equal_real_are_imported(users: Connection) -> None:
    texts = ["1.10", "1E5", "+1", "0.10000000000000001", "0.10000000000000000555", "9e999", "-inf"]
    users.execute("create table numbers (r real) strict")
    import_data(users, "r\n" + "\n".join(texts), "csv", table="numbers")
    assert rows(users, "select r from numbers") == [
        (value,) for value in (1.1, 1e5, 1.0, 0.1, 0.1, float("inf"), float("-inf"))
    ]


def test_lenient_table_refuses_numbers_that_sqlite_would_cut(users: Connection) -> None:
    users.execute("create table loose (i integer, r real)")
    for text in ("10000000000000000000000001", "45e76582", "0.123456789012345678"):
        assert "line 2: in column" in refused_import(users, f"i\n{text}\n", "csv", table="loose")
        for cell in (text, f'"{text}"'):
            assert "in column r" in refused_import(users, f'{{"r": {cell}}}\n', "jsonl", table="loose")


def test_json_number_is_stored_as_its_text_in_a_text_column(users: Connection) -> None:
    import_data(users, '{"name": 1.10}\n{"name": 1e400}\n', "jsonl", table="users", replace=True)
    assert rows(users, "select name from users") == [("1.10",), ("1e400",)]


def test_column_name_with_other_delimiter_round_trips(database: Connection) -> None:
    for mark in ";|":
        apply(database, [CreateTable(f"t {mark}x", (Column(f"a{mark}b", "text"),))])
        database.execute(f"insert into \"t {mark}x\" values ('x{mark}y')")
        output = io.BytesIO(b"".join(save(database, never, "csv", [f"t {mark}x"])))
        assert output.getvalue() == f'"a{mark}b"\nx{mark}y\n'.encode()
        list(load(database, output, "csv", table=f"t {mark}x"))
        assert rows(database, f'select * from "t {mark}x"') == [(f"x{mark}y",)] * 2


def test_constraint_failure_in_late_chunk_names_line(users: Connection) -> None:
    count = table_rows._CHUNK * 2 + 5
    text = "name,score\n" + "".join(f"n,{number}\n" for number in range(count)) + "n,7\n"
    assert f"line {count + 2}: UNIQUE constraint failed: users.score" in refused_import(users, text, "csv")


def test_csv_export_of_all_tables_is_refused(users: Connection) -> None:
    with pytest.raises(TablesError, match="holds one table, not all"):
        list(save(users, never, "csv"))
    with pytest.raises(TablesError, match="table x does not exist"):
        list(save(users, never, "db", ["x"]))
