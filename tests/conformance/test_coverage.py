"""Coverage of the suite: its guests can call every function of the WASI library, and do."""

from pathlib import Path

import pytest

from engine.wasm.capi.host_functions import FUNCTIONS
from engine.wasm.weave.builder import DIRECT_INTERFACES
from engine.wasm.weave.weaver import library
from tests.conformance.host import Host
from tests.conformance.wit import functions


def test_suite_can_call_every_function() -> None:
    exported = {name.decode() for name in library().functions.exports}
    of_library = {name for name in exported if "#" in name and not name.startswith("drop#")}
    of_host = {name for name in FUNCTIONS if name.partition("#")[0] in DIRECT_INTERFACES}
    assert {function.key for function in functions().values()} == of_library | of_host


def test_suite_called_every_function(host: Host, request: pytest.FixtureRequest) -> None:
    folder = Path(__file__).parent
    collected = {item.path for item in request.session.items}
    chosen = request.config.getoption("keyword") or any("::" in name for name in request.config.args)
    if chosen or not set(folder.glob("test_*.py")) <= collected:
        pytest.skip("only a part of the suite was run")
    assert {function.key for function in functions().values()} - host.called == set()
    # Only a guest that calls WASI before its request arrives needs `begin`: tests/engine/wasm/test_weave.py.
    assert FUNCTIONS.keys() - host.called == {"svc:run/host#begin"}
