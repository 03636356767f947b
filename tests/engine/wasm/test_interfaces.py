"""Hosted interfaces are complete, compared with the WIT of the toolchain."""

import asyncio
from pathlib import Path

import pytest

import engine.wasm.compile.check
from engine.wasm.wasi.registry import ALIASES, FUNCTIONS, RESOURCES
from lanes.js.toolchain import ensure
from tests.conformance.wit import Interface, interfaces, read

pytestmark = pytest.mark.slow
WHOLE = ("io", "clocks", "random", "cli", "http")
EXPORTED = {"wasi:http/incoming-handler", "wasi:cli/run"}


@pytest.fixture(scope="module")
def carried(cache: Path) -> dict[str, Interface]:
    """The interfaces of the toolchain's WIT."""
    toolchain = asyncio.run(ensure(cache, lambda line: None))
    result: dict[str, Interface] = {}
    for package in WHOLE:
        result |= read((toolchain.wit / "service" / "deps" / package / "package.wit").read_text())
    return {name: interface for name, interface in result.items() if name not in EXPORTED}


def test_hosted_interfaces_are_complete(carried: dict[str, Interface]) -> None:
    expected = {function.key for interface in carried.values() for function in interface.functions}
    assert len(expected) > 90
    assert expected - FUNCTIONS.keys() == set()
    packages = {f"wasi:{package}" for package in WHOLE}
    assert {n for n in FUNCTIONS if n.partition("/")[0] in packages} - expected == set()


def test_conformance_wit_matches_interfaces(carried: dict[str, Interface]) -> None:
    for name, interface in carried.items():
        ours = interfaces()[name]
        assert {f.key: f for f in ours.functions} == {f.key: f for f in interface.functions}
        assert ours.types == interface.types


def test_resource_types_are_distinct() -> None:
    assert engine.wasm.compile.check.HANDLER
    assert set(ALIASES.values()) <= RESOURCES.keys()
    assert len({id(kind) for kind in RESOURCES.values()}) == len(RESOURCES)
