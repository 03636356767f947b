"""The data directory on this machine as a service, with and without a running `svc serve`."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from engine.bucket.folder import FolderBucket
from engine.control.discovery import ControlEndpoint, find_endpoint, publish_endpoint
from engine.errors import SvcError
from engine.http.tls import Certificate
from svc_tui.client import Unreachable, discovery
from svc_tui.client.credentials import Credentials
from svc_tui.client.discovery import ensure_usable, service_client
from svc_tui.console.engine import ServiceProject
from svc_tui.logs import remote_pages
from svc_tui.main import run
from tests.support.certificates import self_signed
from tests.svc_tui.hosted import Hosted, static_shop

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
    with service(tmp_path / "data", certificate) as url, service_client(tmp_path / "data") as client:
        assert client.url != url and client.url.startswith("http://127.0.0.1:")
        assert client.call("GET", "/v1/whoami")["user"] == "developer"


def test_stale_discovery_file_of_a_killed_service_is_ignored(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    ensure_usable(folder)
    publish_endpoint(folder, ControlEndpoint("http://127.0.0.1:1", "token", 1))
    ensure_usable(folder)
    with service_client(folder) as client:
        assert client.call("GET", "/v1/health")["status"] == "ok"


def test_command_for_a_stopped_service_says_so_and_answers_from_the_folder_only(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, root = tmp_path / "data", static_shop(tmp_path / "shop")
    manifest = root / "svc.toml"
    manifest.write_text(f'{manifest.read_text()}domains = ["shop.example.org"]\n')
    monkeypatch.chdir(root)
    assert run(["login", "--data", str(folder)]) == 0
    capsys.readouterr()
    note = f"the service on {folder} is stopped; this command uses its folder\n"
    assert run(["deploy"]) == 0
    output = capsys.readouterr()
    assert output.err.startswith(note) and "waiting for domains" not in output.err
    assert "shop.<domain>" in output.out and "localhost" not in output.out + output.err
    assert run(["domain", "list"]) == 0
    output = capsys.readouterr()
    assert "◌ shop.example.org  web  waiting for DNS: not checked yet" in output.out and output.err == note
    for command in (
        ["domain", "list", "--service"],
        ["domain", "check"],
        ["domain", "check", "shop.example.org"],
        ["notify", "test"],
        ["restore", "--service", "--project", "shop", "--yes"],
    ):
        assert run(command) == 1
        output = capsys.readouterr()
        assert not output.out and f"error: the service on {folder} is stopped\n" in output.err, command
        assert f"Start it: svc serve --data {folder}" in output.err
    with service(folder):
        assert run(["domain", "list", "--service"]) == 0
        assert "is stopped" not in capsys.readouterr().err


def test_deploy_without_the_values_of_secrets_names_them_before_the_build(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = static_shop(tmp_path / "shop")
    manifest = root / "svc.toml"
    manifest.write_text(f'{manifest.read_text()}build = "touch built"\nsecrets = ["B", "A"]\n')
    monkeypatch.chdir(root)
    with service(tmp_path / "data"):
        assert run(["login", "--data", "../shop/../data"]) == 0
        assert f"logged in to {tmp_path / 'data'} as developer" in capsys.readouterr().out
        assert run(["deploy"]) == 1 and not (root / "built").exists()
        output = capsys.readouterr().err
        assert "error: shop needs secrets without a value on the service: A, B\n" in output
        assert "hint: Set them: svc secret set A && svc secret set B\n" in output
        assert run(["deploy", "--plan"]) == 0
        assert "warning: shop needs secrets without a value on the service: A, B\n" in capsys.readouterr().err


def test_start_waits_for_a_command_that_uses_the_folder(tmp_path: Path) -> None:
    ensure_usable(tmp_path / "data")
    with ThreadPoolExecutor() as threads, ExitStack() as command:
        command.enter_context(service_client(tmp_path / "data"))
        starting = threads.submit(service(tmp_path / "data").__enter__)
        assert not wait([starting], 0.1).done
        with pytest.raises(SvcError, match="a command for a stopped service"):
            FolderBucket(tmp_path / "data")
        command.close()
        assert starting.result(60)


def test_command_waits_for_a_service_that_starts(tmp_path: Path) -> None:
    bucket = FolderBucket(tmp_path / "data", "svc serve")
    with ThreadPoolExecutor() as threads, ExitStack() as services:
        command = service_client(tmp_path / "data")
        waiting = threads.submit(command.__enter__)
        assert not wait([waiting], 0.1).done
        asyncio.run(bucket.aclose())
        services.push(command)
        assert waiting.result(60).call("GET", "/v1/whoami")["user"] == "developer"


def test_open_console_leaves_the_folder_of_a_service_that_stopped(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    login = Credentials(str(folder), folder=folder)
    console = ServiceProject(login, "shop")
    pages = remote_pages(login, "shop", {}, follow=True)
    with service(folder):
        assert console.connect().url
    for lost in (console.connect, lambda: next(pages)):
        with pytest.raises(Unreachable, match="is stopped") as caught:
            lost()
        assert caught.value.hint == f"Start it: svc serve --data {folder}"
    with service(folder) as url:
        assert console.connect().url == url
    console.stop()


def test_commands_do_not_use_the_service_of_another_command(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    ensure_usable(folder)
    program = (
        "import pathlib, sys; from svc_tui.client.discovery import service_client\n"
        "with service_client(pathlib.Path(sys.argv[1])): print('open', flush=True); input()"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", program, folder], stdin=pipe, stdout=pipe, text=True
    ) as other:
        assert other.stdin is not None and other.stdout is not None and other.stdout.readline()
        other_endpoint = find_endpoint(folder)
        with ThreadPoolExecutor() as threads, ExitStack() as stack:
            waiting = threads.submit(lambda: stack.enter_context(service_client(folder)))
            assert not wait([waiting], 0.1).done
            other.stdin.close()
            client = waiting.result(60)
            assert other_endpoint is not None and client.url != other_endpoint.url
            assert client.call("GET", "/v1/whoami")["user"] == "developer"


def test_data_directory_in_use_is_an_explained_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "LOCK_SECONDS", 0.0)
    bucket = FolderBucket(tmp_path / "data", "another svc")
    try:
        with pytest.raises(SvcError, match="another svc"):
            ensure_usable(tmp_path / "data")
        with pytest.raises(Unreachable, match="another svc") as caught, service_client(tmp_path / "data"):
            pass
        assert "try again" in str(caught.value.hint)
    finally:
        asyncio.run(bucket.aclose())


@pytest.mark.parametrize("exists", [False, True])
def test_command_for_a_lost_data_directory_does_not_create_another_one(tmp_path: Path, exists: bool) -> None:
    folder = tmp_path / "data"
    if exists:
        folder.mkdir()
    with pytest.raises(Unreachable, match="has no data of a service") as caught, service_client(folder):
        pass
    assert caught.value.hint.endswith(f"svc login --data {folder}")
    assert (list(folder.iterdir()) if exists else folder.exists()) in ([], False)


def test_folder_that_is_not_a_data_directory_is_unchanged(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").touch()
    with pytest.raises(SvcError, match="not empty"):
        ensure_usable(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]
