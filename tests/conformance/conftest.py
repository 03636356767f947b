import os
from collections.abc import Iterator

import pytest

from tests.conformance.host import Host
from tests.conformance.wasmtime_serve import PROGRAM, WasmtimeHost


@pytest.fixture(scope="session")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host | WasmtimeHost]:
    folder, program = tmp_path_factory.mktemp("conformance"), os.environ.get(PROGRAM)
    host = WasmtimeHost(program, folder) if program else Host(folder)
    yield host
    host.close()


@pytest.fixture(params=["plain", "shim"])
def either_host(host: Host, request: pytest.FixtureRequest) -> Iterator[Host]:
    """The host, for guests that call the library directly and for guests that call it through a table."""
    host.shim = request.param == "shim"
    yield host
    host.shim = False


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the coverage test last."""
    items.sort(key=lambda item: item.name == "test_suite_called_every_function")
