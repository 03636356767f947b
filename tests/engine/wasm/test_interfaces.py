"""The WASI library is complete, compared with the WIT of the toolchain."""

import asyncio
from pathlib import Path

import pytest

from engine.wasm.capi.host_functions import FUNCTIONS
from engine.wasm.weave.builder import DIRECT_INTERFACES, HOST, HOST_INTERFACE
from engine.wasm.weave.weaver import library
from lanes.js.toolchain import ensure
from tests.conformance.guest import core_signature
from tests.conformance.wit import Interface, Resource, interfaces, read

WHOLE = ("io", "clocks", "random", "cli", "http")
EXPORTED = {"wasi:http/incoming-handler", "wasi:cli/run"}
SIGNATURES = {name.decode(): signature for name, signature in library().functions.exports.items()}


@pytest.fixture(scope="module")
def carried(cache: Path) -> dict[str, Interface]:
    """The interfaces of the toolchain's WIT."""
    toolchain = asyncio.run(ensure(cache, lambda line: None))
    result: dict[str, Interface] = {}
    for package in WHOLE:
        result |= read((toolchain.wit / "service" / "deps" / package / "package.wit").read_text())
    return {name: interface for name, interface in result.items() if name not in EXPORTED}


@pytest.mark.slow
def test_library_is_complete(carried: dict[str, Interface]) -> None:
    expected = {function.key for interface in carried.values() for function in interface.functions}
    assert len(expected) > 90
    assert expected - SIGNATURES.keys() == set()
    packages = {f"wasi:{package}" for package in WHOLE}
    assert {n for n in SIGNATURES if n.partition("/")[0] in packages} - expected == set()


@pytest.mark.slow
def test_conformance_wit_matches_interfaces(carried: dict[str, Interface]) -> None:
    for name, interface in carried.items():
        declared = interfaces()[name]
        assert {f.key: f for f in declared.functions} == {f.key: f for f in interface.functions}
        assert declared.types == interface.types


def test_functions_of_the_library_have_the_types_of_the_canonical_abi() -> None:
    compared = 0
    for interface in interfaces().values():
        for function in interface.functions:
            if function.key in SIGNATURES:
                assert SIGNATURES[function.key].text() == core_signature(function), function.key
                compared += 1
    assert compared > 90


def test_each_resource_can_be_dropped() -> None:
    kinds = [kind for interface in interfaces().values() for kind in interface.types.values()]
    names = {kind.name for kind in kinds if isinstance(kind, Resource)}
    assert len(names) > 15
    assert {f"drop#{name}" for name in names} - SIGNATURES.keys() == set()


def test_host_implements_what_woven_components_import() -> None:
    imported = {f"{HOST_INTERFACE}#{name}" for name in HOST}
    for interface, (_, functions) in DIRECT_INTERFACES.items():
        imported |= {f"{interface}#{name}" for name in functions}
    assert FUNCTIONS.keys() == imported
