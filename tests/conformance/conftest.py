from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.wasm.wasi.registry import FUNCTIONS, HostFunction
from tests.conformance.host import Host


def _recorded(name: str, function: HostFunction, called: set[str]) -> HostFunction:
    def body(run, *values):  # type: ignore[no-untyped-def]
        called.add(name)
        return function.body(run, *values)

    return HostFunction(body, function.blocking)


@pytest.fixture(scope="session")
def called() -> Iterator[set[str]]:
    """The names of the host functions that guests of this suite have called so far."""
    original, names = dict(FUNCTIONS), set[str]()
    FUNCTIONS.update({name: _recorded(name, function, names) for name, function in original.items()})
    yield names
    FUNCTIONS.update(original)


@pytest.fixture(scope="session")
def host(called: set[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    host = Host(Path(tmp_path_factory.mktemp("conformance")))
    yield host
    host.close()
