"""Coverage of the suite: a guest of the suite calls every host function."""

from pathlib import Path

import pytest

from engine.wasm.compile.check import HANDLER
from engine.wasm.wasi.registry import FUNCTIONS
from tests.conformance.host import Host
from tests.conformance.wit import functions

ADDED = "svc:bytes/"
"""Interfaces that no component imports by itself."""


def test_suite_can_call_every_host_function() -> None:
    assert HANDLER
    hosted = {name for name in FUNCTIONS if not name.startswith(ADDED)}
    assert {function.key for function in functions().values()} == hosted


def test_suite_called_every_host_function(host: Host, request: pytest.FixtureRequest) -> None:
    folder = Path(__file__).parent
    collected = {item.path for item in request.session.items}
    chosen = request.config.getoption("keyword") or any("::" in name for name in request.config.args)
    if chosen or not set(folder.glob("test_*.py")) <= collected:
        pytest.skip("only a part of the suite was run")
    assert FUNCTIONS.keys() - host.called == set()
