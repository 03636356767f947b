"""`svc/guest/tables`, against the real Door."""

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.artifact import ComponentArtifact
from engine.lane import BuildFailed
from lanes.go.toolchain import Go
from tests.lanes import tables
from tests.lanes.go.module import GUEST, Module
from tests.lanes.tables import Guests

pytestmark = pytest.mark.slow
SOURCE = Path(__file__).with_name("tables.go")
LITE = """\
package main

import (
	"encoding/json"

	"svc/guest/lite"
	"svc/guest/tables"
)

func main() {
	lite.Serve(func(w *lite.Response, r *lite.Request) {
		rows, err := tables.Query(r.Context, "select $1 as n", r.Query)
		if err != nil {
			panic(err)
		}
		json.NewEncoder(w).Encode(rows)
	})
}
"""
WIRE = {"SQL", "Params", "Blobs", "Results"}
NOT_CONSTANT = LITE.replace('"select $1 as n", r.Query', '"select " + r.Query')


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> ComponentArtifact:
    module = Module(tmp_path_factory.mktemp("tables ü").resolve(), cache)
    module.program(SOURCE.read_text(encoding="utf-8"))
    return module.build("deploy")


@pytest.fixture
def guests(artifact: ComponentArtifact, tmp_path: Path, cache: Path) -> Guests:
    return Guests(artifact, "go", tmp_path, cache)


@pytest.mark.parametrize("case", tables.CASES)
def test_tables(guests: Guests, case: Callable[[Guests], None]) -> None:
    case(guests)


def test_value_that_no_column_holds_is_rejected_before_sending(guests: Guests) -> None:
    tables.value_that_no_column_holds_is_not_sent(
        guests,
        "parameter $2 is NaN",
        "parameter $2 is 18446744073709551615, which is more than an integer holds",
        "parameter $2 is not UTF-8",
        "parameter $2 is in the year",
        "parameter $2 has no JSON",
        "statement 2: parameter $1 is +Inf",
        "the SQL is not UTF-8",
    )


def test_column_that_does_not_fit_a_field_is_an_error(guests: Guests) -> None:
    small, text = guests.json("/misfit")
    assert "number 300" in small and "int8" in small
    assert "string" in text and ".n of type int" in text.lower()


def test_lite_program_uses_tables(module: Module, tmp_path: Path, cache: Path) -> None:
    module.program(LITE)
    artifact = module.build("deploy")
    assert artifact.component.stat().st_size < 5 << 20
    assert Guests(artifact, "go", tmp_path / "guest", cache).json("/?7") == [{"n": "7"}]


def test_program_of_the_documentation_works(module: Module, go: Go, tmp_path: Path, cache: Path) -> None:
    module.program(tables.program("go"))
    guests = Guests(module.build(), "go", tmp_path / "guest", cache)
    (added, again) = guests.ask("/users?name=ada", "/users?name=ada", method="POST")
    assert json.loads(added.body)["name"] == "ada" and again.status == 409
    vetted = subprocess.run([go.program, "vet", "."], cwd=module.workdir, capture_output=True, text=True)
    assert (vetted.returncode, vetted.stderr) == (0, "")
    gofmt = Path(go.program).resolve().with_name("gofmt")
    formed = subprocess.run([gofmt, "-l", "main.go"], cwd=module.workdir, capture_output=True, text=True)
    assert (formed.stdout, formed.stderr) == ("", "")


def test_exported_names_are_documented() -> None:
    exported = re.compile(r"^(?:func|type) ([A-Z]\w*)|^\t([A-Z]\w*) +[\w\[]", re.MULTILINE)
    sources = "".join(path.read_text("utf-8") for path in (GUEST / "tables").glob("*.go"))
    names = {name for found in exported.findall(sources) for name in found if name}
    page = tables.PAGE.read_text("utf-8")
    assert {name for name in names - WIRE if not re.search(rf"\b{name}\b", page)} == set()


def test_sql_from_a_concatenation_does_not_compile(module: Module) -> None:
    module.program(NOT_CONSTANT)
    with pytest.raises(BuildFailed) as exc_info:
        module.build()
    (diagnostic,) = exc_info.value.diagnostics
    assert "cannot use" in diagnostic.message and "tables.Text" in diagnostic.message
