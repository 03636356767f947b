"""The Go programs of the documentation compile hosted and natively."""

import re
import subprocess
from pathlib import Path

import pytest

from lanes.go.toolchain import Go
from tests.lanes.go.module import GUEST, Module

PAGE = (GUEST.parents[2] / "docs" / "guides" / "build" / "go.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"^```go\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_page_has_four_programs() -> None:
    assert len(PROGRAMS) == 4


@pytest.mark.slow
@pytest.mark.parametrize("number", range(4))
def test_program_of_the_documentation_compiles(module: Module, go: Go, number: int) -> None:
    module.program(PROGRAMS[number])
    module.build()
    vetted = subprocess.run([go.program, "vet", "."], cwd=module.workdir, capture_output=True, text=True)
    assert (vetted.returncode, vetted.stderr) == (0, "")
    gofmt = Path(go.program).resolve().with_name("gofmt")
    formed = subprocess.run([gofmt, "-l", "main.go"], cwd=module.workdir, capture_output=True, text=True)
    assert (formed.stdout, formed.stderr) == ("", "")


def test_exported_names_are_documented() -> None:
    exported = re.compile(r"^(?:func|type|var) (?:\([a-z] \*?[A-Z]\w*\) )?([A-Z]\w*)", re.MULTILINE)
    names = set()
    for folder in (GUEST, GUEST / "lite"):
        for path in folder.glob("*.go"):
            names |= set(exported.findall(path.read_text(encoding="utf-8")))
    used_by_go_alone = {"EnableFullDuplex", "FlushError", "RoundTrip", "Read", "WriteHeader", "WriteString"}
    assert {name for name in names - used_by_go_alone if not re.search(rf"\b{name}\b", PAGE)} == set()
