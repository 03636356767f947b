import socket
from pathlib import Path

import pytest

from svc_tui.main import run
from svc_tui.unit import unit


def test_a_unit_names_absolute_paths_because_systemd_starts_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = ["svc", "serve", "--tls-cert", "a.pem", "--tls-key=b.pem", "--print-unit"]
    text = unit(arguments, tmp_path / "data", 10)
    assert f"--tls-cert {tmp_path}/a.pem --tls-key={tmp_path}/b.pem --data {tmp_path}/data\n" in text
    assert "--print-unit" not in text


def test_a_unit_waits_longer_for_a_stop_than_requests_have_to_end() -> None:
    assert "TimeoutStopSec=620\n" in unit(["svc", "serve", "--grace", "600"], Path("/data"), 600)


@pytest.mark.parametrize("domain", ["", "a b", "https://apps.example.com", "-a.example", "a..b"])
def test_a_domain_that_is_none_is_refused(domain: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", "--print-unit", "--domain", domain]) == 2
    assert "is no domain" in capsys.readouterr().err


def test_a_taken_port_names_the_option_to_change(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert run(["serve", "--listen", address, "--data", str(tmp_path)]) == 1
    assert "another port with --listen." in capsys.readouterr().err
