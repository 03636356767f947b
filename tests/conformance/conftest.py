from collections.abc import Iterator

import pytest

from tests.conformance.host import Host


@pytest.fixture(scope="session")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    host = Host(tmp_path_factory.mktemp("conformance"))
    yield host
    host.close()


@pytest.fixture(params=["plain", "overlaid"])
def either_host(host: Host, request: pytest.FixtureRequest) -> Iterator[Host]:
    """The host, for guests whose bytes cross as lists and for guests with an overlay."""
    host.overlaid = request.param == "overlaid"
    yield host
    host.overlaid = False


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ask what was called when everything was."""
    items.sort(key=lambda item: item.name == "test_every_hosted_function_was_called")
