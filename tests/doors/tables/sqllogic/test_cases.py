import asyncio
from pathlib import Path

import pytest

from doors.tables.door import TablesDoor
from tests.doors.tables.sqllogic.run import run_files, run_script
from tests.doors.tables.sqllogic.script import Query, ScriptError, Statement, read_script
from tests.doors.tables.tables_door import Tables

CASES = sorted((Path(__file__).parent / "cases").glob("*.test"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_sqllogic_file_passes(path: Path) -> None:
    tally = run_files([path])
    assert tally.failures == []
    assert tally.records > 5


def test_run_script_reports_failures_with_line(tmp_path: Path, loop: asyncio.AbstractEventLoop) -> None:
    tables = Tables(tmp_path, loop, TablesDoor())
    text = """\
statement ok
create table t (a integer)

statement ok
insert into nowhere values (1)

statement error
insert into t values (1)

query I
select a from t
----
2

query I
select a from t
----
1 values hashing to 00000000000000000000000000000000

query II
select a from t

query I
select b from t
"""
    tally = run_script(tables, "x", text)
    tables.close()
    assert [failure.split(": ", 1)[0] for failure in tally.failures] == [
        "x:4",
        "x:7",
        "x:10",
        "x:15",
        "x:20",
        "x:23",
    ]


def test_read_script_parses_sqllogictest_format() -> None:
    text = """\
# a comment
hash-threshold 8

onlyif mysql
statement ok
select mysql

skipif mysql
statement ok
insert into t
values (1)

skipif sqlite
onlyif mysql
query I
select 1

query TIR rowsort label-1
select a, b, c
from t
----
x
1
2.500

query I valuesort
select a
----
30 values hashing to 3c13dee48d9356ae19af2515e05e6b54

halt

statement ok
never
"""
    assert list(read_script(text)) == [
        Statement(8, "insert into t\nvalues (1)", True),
        Query(18, "select a, b, c\nfrom t", "TIR", "rowsort", ("x", "1", "2.500"), 3, ""),
        Query(26, "select a", "I", "valuesort", (), 30, "3c13dee48d9356ae19af2515e05e6b54"),
    ]


def test_read_script_of_invalid_record_raises() -> None:
    with pytest.raises(ScriptError, match="line 2"):
        list(read_script("\nselect 1\n"))
