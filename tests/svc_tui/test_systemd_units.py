import re
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from svc_tui.main import run
from svc_tui.serve.systemd import service_unit, socket_unit


def test_unit_has_absolute_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = ["svc", "serve", "--tls-cert", "a.pem", "--tls-key=b.pem", "--print-unit"]
    text = service_unit("svc", arguments, tmp_path / "data", grace=10, memory_mib=0)
    assert f"--tls-cert {tmp_path}/a.pem --tls-key={tmp_path}/b.pem --data {tmp_path}/data\n" in text
    assert "--print-unit" not in text


def test_stop_timeout_of_unit_exceeds_the_grace_period() -> None:
    assert "TimeoutStopSec=620\n" in service_unit(
        "svc", ["svc", "serve", "--grace", "600"], Path("/data"), grace=600, memory_mib=0
    )


def test_service_unit_has_no_capabilities_and_writes_only_its_data() -> None:
    lines = service_unit("svc", ["svc", "serve"], Path("/data"), grace=10, memory_mib=0).splitlines()
    assert "User=svc" in lines and "CapabilityBoundingSet=" in lines and "NoNewPrivileges=true" in lines
    assert "ProtectSystem=strict" in lines
    assert [line for line in lines if line.startswith(("ReadWrite", "Ambient"))] == ["ReadWritePaths=/data"]


def test_service_unit_writes_the_folder_of_its_backup() -> None:
    def unit(backup: str) -> list[str]:
        return service_unit("svc", ["svc"], Path("/data"), grace=10, memory_mib=0, backup=backup).splitlines()

    assert 'ReadWritePaths=/data "-/mnt/an ü"' in unit("file:///mnt/an%20ü")
    assert "ReadWritePaths=/data" in unit("s3://bucket/svc")


def test_service_unit_limits_the_memory_of_all_its_processes() -> None:
    def unit(memory_mib: int) -> list[str]:
        arguments = ["svc", "serve"]
        return service_unit("svc", arguments, Path("/data"), grace=10, memory_mib=memory_mib).splitlines()

    assert "MemoryMax=90%" in unit(0) and "MemoryMax=1280M" in unit(1024)
    assert "OOMPolicy=continue" in unit(0)  # A compiler that is killed does not stop the service.


def test_socket_unit_listens_on_all_addresses_of_both_options() -> None:
    text = socket_unit("svc", [("0.0.0.0", 443), ("localhost", 8081), ("::", 8443)])
    listens = [line.partition("=")[2] for line in text.splitlines() if line.startswith("ListenStream=")]
    assert listens == ["0.0.0.0:443", "127.0.0.1:8081", "[::1]:8081", "[::]:8443"]


@pytest.mark.parametrize("address", ["server.example:443", "127.0.0.1:0"])
def test_socket_unit_with_a_host_name_or_port_0_fails(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["serve", "--print-socket", "--listen", address]) == 2
    assert "systemd cannot listen" in capsys.readouterr().err


def test_service_unit_requires_the_socket_unit(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", "--print-unit", "--print-socket", "--listen", "127.0.0.1:8443"]) == 0
    printed = capsys.readouterr().out
    assert "Requires=svc.socket" in printed and "ListenStream=127.0.0.1:8443\n" in printed


def test_unit_omits_the_folder_option(tmp_path: Path) -> None:
    arguments = ["svc", "-C", "serve", "serve", "--data", "/data", "--print-unit"]
    # A path with a blank in it, such as that of this checkout, is quoted.
    assert re.search(
        r'bin/svc"? serve --data /data\n', service_unit("svc", arguments, tmp_path, grace=10, memory_mib=0)
    )


def test_units_with_a_name_use_it_everywhere(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--name", "svc-staging", "--listen", "127.0.0.1:8443"]
    text = service_unit("svc-staging", ["svc", "serve", *arguments], Path("/data"), grace=10, memory_mib=0)
    assert "Requires=svc-staging.socket\nAfter=svc-staging.socket " in text and "\nUser=svc-staging\n" in text
    assert "--name svc-staging" in text and "svc.socket" not in text
    assert run(["serve", "--print-socket", *arguments]) == 0
    assert "Description=svc-staging: its sockets" in capsys.readouterr().out


@pytest.mark.parametrize(
    "name", ["", "Svc", "ü", "a b", "-a", "../a", "a.socket", "1", "x" * 32, "a\nUser=root"]
)
def test_invalid_unit_name_fails(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", "--print-unit", "--name", name]) == 2
    output = capsys.readouterr()
    assert output.out == "" and "for systemd units" in output.err


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
@pytest.mark.parametrize("folder", ["data", 'dä ta $HOME %h "q" \\b'])
@pytest.mark.parametrize("name", ["svc", "svc-staging"])
def test_systemd_accepts_the_units(tmp_path: Path, name: str, folder: str) -> None:
    data = tmp_path / folder
    service, sockets = tmp_path / f"{name}.service", tmp_path / f"{name}.socket"
    service.write_text(service_unit(name, ["svc", "serve", "--name", name], data, grace=10, memory_mib=0))
    sockets.write_text(socket_unit(name, [("::", 443), ("127.0.0.1", 8081)]))
    verify = ["systemd-analyze", "verify", str(service), str(sockets)]
    process = subprocess.run(verify, capture_output=True, text=True, check=False, timeout=60)
    # It says nothing about units that are right; what it says of others on this machine is not meant.
    assert process.returncode == 0 and name not in process.stderr


def test_unit_escapes_special_characters_of_paths() -> None:
    lines = service_unit("svc", ["svc", "serve"], Path('/dä ta$x%h"\\'), grace=10, memory_mib=0).splitlines()
    command = 'svc serve --data "/dä ta$$x%%h\\"\\\\"'
    assert 'Environment="SVC_HOME=/dä ta$x%%h\\"\\\\"' in lines
    assert 'ReadWritePaths="/dä ta$x%%h\\"\\\\"' in lines
    assert any(line.replace('svc" serve', "svc serve").endswith(command) for line in lines)


@pytest.mark.parametrize(
    "domain",
    ["", "a b", "https://apps.example.com", "-a.example", "a..b", "ü.example", "a" * 64, "a." * 95 + "b"],
)
def test_serve_with_an_invalid_domain_fails(domain: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", "--print-unit", "--domain", domain]) == 2
    assert "is not a valid domain" in capsys.readouterr().err


def test_serve_with_one_address_for_both_ports_fails(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    both = ["--listen", "127.0.0.1:18443", "--control", "127.0.0.1:18443"]
    assert run(["serve", *both, "--data", str(tmp_path)]) == 2
    assert "--listen and --control are both 127.0.0.1:18443" in capsys.readouterr().err


def test_serve_accepts_a_domain_of_maximum_length(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", "--print-unit", "--domain", "a." * 94 + "b"]) == 0


def test_serve_on_a_port_in_use_names_the_option(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with socket.socket() as occupied:
        occupied.bind(("127.0.0.1", 0))
        occupied.listen()
        address = f"127.0.0.1:{occupied.getsockname()[1]}"
        assert run(["serve", "--listen", address, "--data", str(tmp_path)]) == 1
    assert "another port with --listen." in capsys.readouterr().err
