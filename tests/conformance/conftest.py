from collections.abc import Iterator

import pytest

from tests.conformance.host import Host


@pytest.fixture(scope="session")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    host = Host(tmp_path_factory.mktemp("conformance"))
    yield host
    host.close()


@pytest.fixture(params=["plain", "patched"])
def either_host(host: Host, request: pytest.FixtureRequest) -> Iterator[Host]:
    """The host, for guests whose bytes cross as lists and for guests with fast streams."""
    host.patched = request.param == "patched"
    yield host
    host.patched = False


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the coverage test last."""
    items.sort(key=lambda item: item.name == "test_suite_called_every_host_function")
