from collections.abc import Iterator

import pytest

from tests.conformance.host import Host


@pytest.fixture(scope="session")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    host = Host(tmp_path_factory.mktemp("conformance"))
    yield host
    host.close()
