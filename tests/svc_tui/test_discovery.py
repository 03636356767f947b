"""The data directory on this machine as a service, with and without a running `svc serve`."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from engine.bucket.folder import FolderBucket
from engine.control.discovery import ControlEndpoint, find_endpoint, publish_endpoint
from engine.errors import SvcError
from engine.http.tls import Certificate
from svc_tui.client.discovery import ensure_usable, service_client
from tests.support.certificates import self_signed
from tests.svc_tui.hosted import Hosted

pytestmark = pytest.mark.slow


@contextmanager
def service(folder: Path, certificate: Certificate | None = None) -> Iterator[str]:
    """Serve a data folder; yield the address of its control API."""
    with Hosted(folder, certificate) as hosted:
        yield hosted.control


def test_write_permission_on_the_data_directory_makes_an_owner(tmp_path: Path) -> None:
    folder = tmp_path / "data ü"
    ensure_usable(folder)
    assert folder.stat().st_mode & 0o077 == 0
    with service_client(folder) as client:
        assert client.call("GET", "/v1/whoami")["roles"] == {"*": "owner"}
        assert client.call("GET", "/v1/claim") == {"claimed": False}
    assert find_endpoint(folder) is None
    ensure_usable(folder)


def test_commands_use_the_service_that_runs_on_the_data_directory(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with service(folder) as url:
        ensure_usable(folder)
        with service_client(folder) as client:
            assert client.url == url
            assert client.call("GET", "/v1/whoami")["user"] == "developer"
    assert find_endpoint(folder) is None


def test_service_with_tls_is_reached_through_its_data_directory(tmp_path: Path) -> None:
    certificate = Certificate(*self_signed(tmp_path))
    with (
        service(tmp_path / "data", certificate) as url,
        service_client(tmp_path / "data") as client,
    ):
        assert client.url != url and client.url.startswith("http://127.0.0.1:")
        assert client.call("GET", "/v1/whoami")["user"] == "developer"


def test_stale_discovery_file_of_a_killed_service_is_ignored(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    ensure_usable(folder)
    publish_endpoint(folder, ControlEndpoint("http://127.0.0.1:1", "token", 1))
    ensure_usable(folder)
    with service_client(folder) as client:
        assert client.call("GET", "/v1/health")["status"] == "ok"


def test_data_directory_in_use_is_an_explained_error(tmp_path: Path) -> None:
    bucket = FolderBucket(tmp_path / "data", "another svc")
    try:
        with pytest.raises(SvcError, match="another svc"):
            ensure_usable(tmp_path / "data")
        with pytest.raises(SvcError, match="another svc"), service_client(tmp_path / "data"):
            pass
    finally:
        asyncio.run(bucket.aclose())


def test_folder_that_is_not_a_data_directory_is_unchanged(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").touch()
    with pytest.raises(SvcError, match="not empty"):
        ensure_usable(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]
