"""SQL functions that replace those of SQLite: the same values, in a time that grows with their arguments."""

import threading
import time
from collections.abc import Iterator

import apsw
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.files.sql_functions import register_functions
from tests.support.examples import examples

SIZE = 1 << 20
CALLS = ("instr(?, ?)", "trim(?, ?)", "ltrim(?, ?)", "rtrim(?, ?)", "unhex(?, ?)", "replace(?, ?, ?)")


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[apsw.Connection, apsw.Connection]]:
    """A connection with SQLite's functions, and one with ours."""
    builtin, own = apsw.Connection(":memory:"), apsw.Connection(":memory:")
    register_functions(own)
    yield builtin, own
    builtin.close()
    own.close()


text = st.text(st.sampled_from("aAbf0é€😀 \0-"), max_size=12)
value = st.one_of(
    st.none(),
    text,
    text.map(str.encode),
    st.binary(max_size=3),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
)


@settings(max_examples=examples(1000), deadline=None)
@example(["aé€b", b"\xa9", "x"])
@example(["éa", b"\xc3", ""])
@example([0.1, "1", 1e300])
@example([5, "", "a"])
@example(["", "", ""])
@example([b"", b"", b""])
@example([b"\xa9a", "a", None])
@given(values=st.lists(value, min_size=3, max_size=3))
def test_functions_return_what_those_of_sqlite_return(
    pair: tuple[apsw.Connection, apsw.Connection], values: list[object]
) -> None:
    builtin, own = pair
    for call in CALLS:
        arguments = values[: call.count("?")]
        sql = f"with r(v) as materialized (select {call}) select typeof(v), cast(v as blob) from r"
        try:
            result = own.execute(sql, arguments).fetchall()
        except UnicodeDecodeError:
            assert any(map(_is_not_text, arguments)), (call, arguments)
        else:
            assert result == builtin.execute(sql, arguments).fetchall(), (call, arguments)


def _is_not_text(value: object) -> bool:
    return isinstance(value, bytes) and value.decode(errors="replace").encode() != value


def test_text_that_is_not_utf8_is_refused(pair: tuple[apsw.Connection, apsw.Connection]) -> None:
    with pytest.raises(UnicodeDecodeError):
        pair[1].execute("select instr(cast(x'ff' as text), 'a')").fetchall()


def test_functions_are_used_in_indexes_checks_and_generated_columns() -> None:
    own, plain = apsw.Connection(":memory:"), apsw.Connection(":memory:")
    register_functions(own)
    own.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    own.execute(
        "create table t (a text check (instr(a, 'x') = 0), b text as (replace(a, 'a', 'b')) stored,"
        " c blob as (unhex(a, '-')));"
        "create index i on t (trim(a, '-'));"
        "insert into t (a) values ('-aa-'), ('00-ff'), ('é')"
    )
    with pytest.raises(apsw.ConstraintError):
        own.execute("insert into t (a) values ('x')")
    plain.deserialize("main", own.serialize("main"))
    for connection in (own, plain):
        assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
        assert connection.execute("select a from t where trim(a, '-') = 'aa'").fetchall() == [("-aa-",)]
    plain.execute("insert into t (a) values ('-b')")
    own.deserialize("main", plain.serialize("main"))
    assert own.execute("pragma integrity_check").fetchall() == [("ok",)]


WORST = {
    "instr": ("select instr(?, ?)", ["a" * SIZE, "a" * (SIZE // 2) + "b"]),
    "instr of blobs": ("select instr(?, ?)", [bytes(SIZE), bytes(SIZE // 2) + b"b"]),
    "instr of both": ("select instr(?, ?)", [b"a" * SIZE, "a" * (SIZE // 2) + "b"]),
    "instr within characters": ("select instr(?, ?)", ["é" * (SIZE // 2), b"\xa9"]),
    "replace": ("select replace(?, ?, '')", ["a" * SIZE, "a" * (SIZE // 2) + "b"]),
    "replace many": ("select length(replace(?, 'a', ''))", ["a" * SIZE]),
    "trim": ("select trim(?, ?)", ["a" * SIZE, "".join(map(chr, range(98, 50_000))) + "a"]),
    "unhex": ("select unhex(?, ?)", ["-" * SIZE, "".join(map(chr, range(98, 50_000))) + "-"]),
}


@pytest.mark.parametrize("name", WORST)
def test_time_grows_with_the_arguments_only(pair: tuple[apsw.Connection, apsw.Connection], name: str) -> None:
    """SQLite's functions take 5 to 700 seconds for these."""
    began = time.thread_time()
    pair[1].execute(*WORST[name]).fetchall()
    assert time.thread_time() - began < 1


def test_waiting_thread_runs_beside_calls() -> None:
    connection = apsw.Connection(":memory:")
    register_functions(connection)
    sql = (
        "with n(i) as (select 1 union all select i + 1 from n where i < 10000)"
        " select sum(instr(x, y)) from n,"
        " (select hex(zeroblob(20000)) as x, hex(zeroblob(10000)) || 1 as y)"
    )
    calling = threading.Thread(target=lambda: connection.execute(sql).fetchall())
    calling.start()
    turns = 0
    while calling.is_alive():
        time.sleep(0.0005)
        turns += 1
    connection.close()
    assert turns > 200
