"""`svc serve` in this process: a failing start closes the sockets that it has bound."""

import asyncio
import socket
from pathlib import Path

import pytest

from engine.bucket.folder import FolderBucket
from engine.control.auth.accounts import ACCOUNTS_KEY
from engine.http import sockets
from svc_tui.commands import serve
from svc_tui.main import run

PORTS = ["--listen", "127.0.0.1:0", "--control", "127.0.0.1:0"]


@pytest.fixture
def bound(monkeypatch: pytest.MonkeyPatch) -> list[socket.socket]:
    """All sockets that `svc serve` binds."""
    opened: list[socket.socket] = []

    def bind(host: str, port: int, *, listens: bool) -> list[socket.socket]:
        opened.extend(new := sockets.bind(host, port, listens=listens))
        return new

    def bind_reuseport(host: str, port: int, count: int) -> list[list[socket.socket]]:
        shared = sockets.bind_reuseport(host, port, count)
        opened.extend(each for group in shared for each in group)
        return shared

    monkeypatch.setattr(serve, "bind", bind)
    monkeypatch.setattr(serve, "bind_reuseport", bind_reuseport)
    return opened


@pytest.mark.parametrize("network", ["10.0.0.1/8", "proxy.example", "10.0.0.0/33", ""])
def test_serve_with_an_invalid_network_of_proxies_is_wrong_usage(
    bound: list[socket.socket], tmp_path: Path, capsys: pytest.CaptureFixture[str], network: str
) -> None:
    arguments = ["--trusted-proxy", "127.0.0.1", "--trusted-proxy", network, "--data", str(tmp_path)]
    assert run(["serve", *PORTS, *arguments]) == 2
    error = capsys.readouterr().err
    assert f"--trusted-proxy {network} is not a network" in error and "CIDR" in error and not bound


@pytest.mark.parametrize("workers", ["1", "2"])
def test_serve_with_data_in_use_closes_its_sockets(
    bound: list[socket.socket], tmp_path: Path, capsys: pytest.CaptureFixture[str], workers: str
) -> None:
    (tmp_path / "data").mkdir()
    in_use = FolderBucket(tmp_path / "data", "another service")
    assert run(["serve", *PORTS, "--workers", workers, "--data", str(tmp_path / "data")]) == 1
    asyncio.run(in_use.aclose())
    assert "another service" in capsys.readouterr().err
    assert bound and all(each.fileno() == -1 for each in bound)


def test_serve_with_control_port_in_use_closes_the_public_socket(
    bound: list[socket.socket], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as occupied:
        occupied.bind(("127.0.0.1", 0))
        occupied.listen()
        control = f"127.0.0.1:{occupied.getsockname()[1]}"
        arguments = ["--listen", "127.0.0.1:0", "--control", control, "--data", str(tmp_path)]
        assert run(["serve", *arguments]) == 1
    assert "another port with --control." in capsys.readouterr().err
    assert bound and all(each.fileno() == -1 for each in bound)


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "[::]"])
def test_control_api_beyond_the_machine_requires_tls(
    bound: list[socket.socket], tmp_path: Path, capsys: pytest.CaptureFixture[str], host: str
) -> None:
    arguments = ["--listen", "127.0.0.1:0", "--control", f"{host}:8081", "--data", str(tmp_path / "data")]
    assert run(["serve", *arguments]) == 2
    assert "would receive passwords without TLS" in capsys.readouterr().err
    assert bound == [] and not (tmp_path / "data").exists()


def test_serve_with_an_invalid_region_names_what_is_allowed(
    bound: list[socket.socket], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["serve", *PORTS, "--region", "eu west", "--data", str(tmp_path)]) == 2
    errors = capsys.readouterr().err
    assert '"eu west" is not a name of a region' in errors and "Use at most 63" in errors
    assert bound == []


def test_serve_with_corrupt_accounts_names_the_file_and_the_remedy(
    bound: list[socket.socket], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def corrupt() -> None:
        bucket = FolderBucket(tmp_path, "test")
        await bucket.kv.cas(ACCOUNTS_KEY, b"{", None)
        await bucket.aclose()

    asyncio.run(corrupt())
    assert run(["serve", *PORTS, "--data", str(tmp_path)]) == 1
    errors = capsys.readouterr().err
    assert f"the stored accounts are corrupt: {tmp_path / 'control.db'}" in errors
    assert "Restore control.db from a backup." in errors
    assert all(each.fileno() == -1 for each in bound)


def test_serve_with_the_port_of_challenges_in_use_names_it(
    bound: list[socket.socket], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        acme = ["--acme", "a@b.example", "--domain", "apps.example", "--acme-http", address]
        assert run(["serve", *PORTS, *acme, "--data", str(tmp_path)]) == 1
    errors = capsys.readouterr().err
    assert f"port {address.partition(':')[2]} is in use" in errors and "--acme-http" in errors
    assert bound and all(each.fileno() == -1 for each in bound)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--acme", "ann", "--domain", "apps.example"], '"ann" is not a mail address'),
        (["--acme", "ann@example.com"], "for localhost"),
        (["--acme", "ann@example.com", "--domain", "apps.example", "--proxied"], "--proxied"),
        (["--acme-directory", "https://127.0.0.1/dir"], "require --acme"),
        (["--acme-dns", "rfc2136"], "require --acme"),
        (
            ["--acme", "a@b.example", "--domain", "apps.example", "--acme-dns", "rfc2136"],
            "LEXICON_RFC2136_SERVER",
        ),
        (["--acme", "a@b.example", "--domain", "apps.example", "--acme-directory", "dir"], "dir is not"),
        (["--acme", "a@b.example", "--domain", "apps.example", "--acme-ca-file", "none.pem"], "none.pem"),
        (["--acme", "a@b.example", "--domain", "apps.example", "--listen", "127.0.0.1:80"], "--acme-http is"),
        (["--acme", "a@b.example", "--domain", "apps.example", "--acme-http", "80"], "--acme-http 80"),
        (["--domain", "192.0.2.1"], '"192.0.2.1" is not a valid domain'),
        (["--log-days", "0", "--backup", "file:///none"], "--log-days must be"),
    ],
)
def test_serve_with_wrong_options_names_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], named: str
) -> None:
    assert run(["serve", "--data", str(tmp_path), *arguments]) == 2
    printed = capsys.readouterr().err
    assert named in printed and "hint" in printed
