from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.control.service import Service, running


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """A service without an owner."""
    with running(tmp_path / "data ü") as service:
        yield service


@pytest.fixture
def owner(service: Service) -> str:
    """The token of a session of the service's owner, ann."""
    return service.claim()
