"""`svc_guest::tables`, against the real Door."""

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.artifact import ComponentArtifact
from engine.lane import BuildFailed
from tests.lanes import tables
from tests.lanes.rust.crate import Crate, handler
from tests.lanes.tables import Guests

pytestmark = pytest.mark.slow
SOURCE = Path(__file__).with_name("tables.rs")
NOT_CONSTANT = (
    'tables::query(&format!("select {}", request.path()), tables::params![])?; Ok(Response::empty(204))'
)


@pytest.fixture(scope="module")
def artifact(new_crate: Callable[[], Crate]) -> ComponentArtifact:
    crate = new_crate()
    crate.program(SOURCE.read_text(encoding="utf-8"))
    return crate.build("deploy")


@pytest.fixture
def guests(artifact: ComponentArtifact, tmp_path: Path, cache: Path) -> Guests:
    return Guests(artifact, "rust", tmp_path, cache)


@pytest.mark.parametrize("case", tables.CASES)
def test_tables(guests: Guests, case: Callable[[Guests], None]) -> None:
    case(guests)


def test_value_that_no_column_holds_is_rejected_before_sending(guests: Guests) -> None:
    tables.value_that_no_column_holds_is_not_sent(
        guests,
        "parameter $2 is NaN",
        "parameter $1 is 18446744073709551615, which is more than an integer holds",
        "statement 2: parameter $1 is inf",
        "parameter $1 is a time that no timestamp holds",
    )


def test_column_that_does_not_fit_a_field_is_an_error(guests: Guests) -> None:
    assert guests.json("/misfit") == [
        "column r is a text, not a real",
        "column n is 300, which u8 does not hold",
        "column m is not in the row",
    ]


def test_sql_from_a_format_string_does_not_compile(crate: Crate) -> None:
    crate.program(handler(NOT_CONSTANT))
    with pytest.raises(BuildFailed) as exc_info:
        crate.build("deploy")  # In the mode of the other test, whose library is compiled.
    assert "'static" in exc_info.value.output or "Sql: From<&String>" in exc_info.value.output
