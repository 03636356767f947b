"""`tables` of `@svc/guest`, against the real Door."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.artifact import ComponentArtifact
from tests.lanes import tables
from tests.lanes.js.conftest import Sources
from tests.lanes.tables import Guests

pytestmark = pytest.mark.slow
SOURCE = Path(__file__).with_name("tables.js")
NEITHER = 'export default { fetch: () => new Response("hello") };\n'


@pytest.fixture(scope="module", params=["dev", "deploy"])
def artifact(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, cache: Path
) -> ComponentArtifact:
    sources = Sources(tmp_path_factory.mktemp("tables ü").resolve(), cache)
    sources.write("index.js", SOURCE.read_text())
    return sources.build(request.param)


@pytest.fixture
def guests(artifact: ComponentArtifact, tmp_path: Path, cache: Path) -> Guests:
    return Guests(artifact, "js", tmp_path, cache)


@pytest.mark.parametrize("case", tables.CASES)
def test_tables(guests: Guests, case: Callable[[Guests], None]) -> None:
    case(guests)


def test_what_no_column_holds_is_not_sent(guests: Guests) -> None:
    tables.what_no_column_holds_is_not_sent(
        guests,
        "parameter $1 is undefined",
        "parameter $2 is NaN",
        "parameter $1 is Infinity",
        "parameter $1 is () => 1",
        "the SQL is of type undefined",
        "tables.sql",
    )


def test_who_does_not_use_them_does_not_carry_them(sources: Sources) -> None:
    sources.write("index.js", NEITHER)
    alone = sources.build()
    sources.write("index.js", f"import {{ log }} from '@svc/guest';\n{NEITHER}")
    with_library = sources.build()
    assert alone.script is not None and with_library.script is not None
    assert "SVC_TABLES_ENDPOINT" not in with_library.script


def test_the_program_of_the_documentation(sources: Sources, tmp_path: Path, cache: Path) -> None:
    sources.write("index.js", tables.program("js"))
    added, again = Guests(sources.build(), "js", tmp_path / "guest", cache).ask("/?name=ada", "/?name=ada")
    (row,) = json.loads(added.body)
    assert (row["id"], row["name"]) == (1, "ada") and row["born"].endswith("Z")
    assert again.status == 409
