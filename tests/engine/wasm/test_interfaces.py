"""Every function of the interfaces that we say are hosted is there, by the WIT that the toolchain carries."""

import asyncio
import re
from pathlib import Path

import pytest

import engine.wasm.check
from engine.wasm.wasi.registry import ALIASES, FUNCTIONS, RESOURCES
from lanes.js.toolchain import ensure

pytestmark = pytest.mark.slow
WHOLE = ("io", "clocks", "random", "cli", "http")
EXPORTED = {"wasi:http/incoming-handler", "wasi:cli/run"}


def functions(text: str) -> set[str]:
    """Return `<package>/<interface>#<name>` for each function of a WIT package."""
    text = re.sub(r"//[^\n]*", "", text)
    package = re.search(r"package ([a-z:]+)", text)
    assert package
    found = set()
    for interface, body in re.findall(r"interface ([a-z0-9-]+) \{(.*?)\n\}", text, re.DOTALL):
        base = f"{package.group(1)}/{interface}"
        outside = body
        for resource, methods in re.findall(r"resource ([a-z-]+) \{(.*?)\n\s+\}", body, re.DOTALL):
            outside = outside.replace(methods, "")
            if "constructor(" in methods:
                found.add(f"{base}#[constructor]{resource}")
            for name, static in re.findall(r"%?([a-z-]+): (static )?func\(", methods):
                found.add(f"{base}#[{'static' if static else 'method'}]{resource}.{name}")
        found |= {f"{base}#{name}" for name in re.findall(r"%?([a-z-]+): func\(", outside)}
    return found


def test_every_function_of_a_hosted_interface_is_hosted(cache: Path) -> None:
    toolchain = asyncio.run(ensure(cache, lambda line: None))
    wanted: set[str] = set()
    for package in WHOLE:
        text = (toolchain.wit / "service" / "deps" / package / "package.wit").read_text()
        wanted |= {name for name in functions(text) if name.partition("#")[0] not in EXPORTED}
    assert len(wanted) > 90
    assert wanted - FUNCTIONS.keys() == set()


def test_every_resource_has_its_own_type() -> None:
    assert engine.wasm.check.HANDLER
    assert set(ALIASES.values()) <= RESOURCES.keys()
    assert len({id(kind) for kind in RESOURCES.values()}) == len(RESOURCES)
