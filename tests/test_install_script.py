"""`install.sh` for a user and for a service: dry runs, mistakes, a fresh home, and a fresh Debian."""

import os
import re
import shlex
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from uv import find_uv_bin

from tests.support.waiting import until

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "install.sh"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


def environ(home: Path, **more: str) -> dict[str, str]:
    """Return the environment of a user without uv, with the settings of this machine for downloads."""
    names = re.compile(r"(PIP|SSL|UV|HTTPS?)_\w+|https?_proxy")
    return {key: text for key, text in os.environ.items() if names.fullmatch(key)} | {
        "HOME": str(home),
        "PATH": SYSTEM_PATH,
        **more,
    }


def install(environ: dict[str, str], *words: str, code: int = 0) -> str:
    """Run the script, as from a pipe, and return what it prints."""
    with SCRIPT.open() as script:
        process = subprocess.run(
            ["sh", "-s", "--", *words],
            stdin=script,
            env=environ,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
    assert process.returncode == code, process.stdout
    return process.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel ü")
    subprocess.run([find_uv_bin(), "build", "--quiet", "--wheel", "--out-dir", folder, ROOT], check=True)
    return next(folder.glob("*.whl"))


def test_script_is_clean() -> None:
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not installed (Debian: apt install shellcheck)")
    process = subprocess.run(["shellcheck", "-s", "sh", SCRIPT], capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stdout


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--serve"], "unknown option --serve"),
        (["--server"], "--server needs --domain"),
        (["--server", "--domain"], "--domain needs a value"),
        (["--server", "--domain", "--dry-run"], "--domain needs a value"),
        (["--server", "--domain", "a.example", "--acme", "--dry-run"], "--acme needs a value"),
        (["--domain", "apps.example.com"], "Pass --server."),
        (
            ["--server", "--dry-run", "--domain", "apps_x.example.com"],
            '"apps_x.example.com" is not a valid domain',
        ),
        (["--server", "--dry-run", "--domain", "https://a.example"], "is not a valid domain"),
        (["--server", "--dry-run", "--domain", "192.0.2.1"], "is not a valid domain"),
        (["--server", "--dry-run", "--domain", "a.example\nb.example"], "is not a valid domain"),
        (["--server", "--dry-run", "--domain", "."], "is not a valid domain"),
        (["--server", "--dry-run", "--domain", "a.example" * 25], "is not a valid domain"),
        (["--server", "--dry-run", "--domain", "a.example", "--acme", "you"], "is not a mail address"),
        (["--server", "--dry-run", "--domain", "apps", "--acme", "a@b.example"], "no certificates for apps"),
        (["--", "--workers", "2"], "Pass --server."),
    ],
)
def test_mistake_is_named_and_nothing_is_installed(tmp_path: Path, words: list[str], text: str) -> None:
    assert text in install(environ(tmp_path), *words, code=2)
    assert list(tmp_path.iterdir()) == []


def test_dry_run_prints_the_steps_and_changes_nothing(tmp_path: Path) -> None:
    printed = install(environ(tmp_path), "--dry-run")
    assert f"+ {tmp_path}/.local/share/svc/uv/bin/uv tool install" in printed
    mail = ("--domain", "apps.example.com", "--acme", "you@example.com")
    printed = install(environ(tmp_path), "--dry-run", "--server", *mail)
    for step in ("+ useradd --system", "+ write /etc/systemd/system/svc.socket", "+ systemctl enable"):
        assert step in printed
    assert "  svc login https://apps.example.com:8081\n" in printed
    assert list(tmp_path.iterdir()) == []


STUBS = {
    "uv": 'mkdir -p "$UV_TOOL_BIN_DIR"; ln -sf "$STUBS/svc" "$UV_TOOL_BIN_DIR/svc"',
    "svc": 'echo "unit $*"',
    "systemctl": 'echo "$*" >>"$STUBS/log"; [ "$1" != "$(cat "$STUBS/failing" 2>/dev/null)" ]',
    **dict.fromkeys(("install", "journalctl", "useradd"), ":"),
}


def test_service_is_restarted_after_a_run_that_failed(tmp_path: Path) -> None:
    for name, text in STUBS.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    mounts = "; ".join(f"mount -t tmpfs tmpfs {folder}" for folder in ("/opt", "/run", "/etc/systemd"))
    shell = ["unshare", "--map-root-user", "--mount", "sh", "-ec"]
    if subprocess.run([*shell, mounts], capture_output=True, check=False).returncode:
        pytest.skip("this machine has no mount namespaces, or no systemd")
    once = 'sh "$0" --server --domain apps.example'
    runs = f"""{mounts}; mkdir -p /etc/systemd/system /run/systemd/system /opt/svc
        for failing in enable restart; do
            echo $failing >"$STUBS/failing"; ! {once} -- --workers $failing
            rm "$STUBS/failing"; echo again >>"$STUBS/log"; {once} -- --workers $failing
            echo third >>"$STUBS/log"; {once} -- --workers $failing
        done"""
    own = environ(tmp_path, STUBS=str(tmp_path), PATH=f"{tmp_path}:{SYSTEM_PATH}")
    process = subprocess.run([*shell, runs, SCRIPT], env=own, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    enable, reload, restart = "enable --quiet", "daemon-reload", "restart"
    start = "start svc.socket svc.service"
    units = " svc.socket svc.service"
    again = ["again", enable + units, reload, restart + units, start, "third", enable + units, start]
    assert (tmp_path / "log").read_text().splitlines() == [
        enable + units,
        *again,
        enable + units,
        reload,
        restart + units,
        *again,
    ]


def test_uv_of_the_user_is_used_and_without_python_its_installer(tmp_path: Path) -> None:
    printed = install(environ(tmp_path, SVC_UV="/opt/uv"), "--dry-run")
    assert "+ /opt/uv tool install --quiet --python >=3.11 svc-tui" in printed and "venv" not in printed
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in ("sh", "cat", "id", "curl", "mkdir"):
        (tools / tool).symlink_to(shutil.which(tool) or tool)
    installer = "https://mirror.example.com/uv.sh"
    printed = install(environ(tmp_path, PATH=str(tools), SVC_UV_INSTALLER=installer), "--dry-run")
    assert f"+ curl -fsSL {installer} | " in printed
    (tools / "curl").unlink()
    assert "apt install python3-venv" in install(environ(tmp_path, PATH=str(tools)), "--dry-run", code=1)


@pytest.mark.slow(seconds=30)
def test_fresh_home_gets_svc_twice_and_loses_it(tmp_path: Path, wheel: Path) -> None:
    home = tmp_path / "home ü"
    home.mkdir()
    own = environ(home, SVC_SOURCE=str(wheel))
    assert f"Add {home}/.local/bin to PATH" in install(own)
    svc = home / ".local" / "bin" / "svc"
    installed = svc.resolve().stat().st_mtime_ns
    assert subprocess.check_output([svc, "--version"], env=own, text=True).startswith("svc ")
    assert "installing uv" not in install(own)
    assert svc.resolve().stat().st_mtime_ns == installed
    install(own, "--uninstall")
    assert not svc.exists() and not (home / ".local" / "share" / "svc").exists()
    install(own, "--uninstall")


class Chroot:
    """A root folder with a system of its own, in which programs run without the processes of this machine."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def command(self, *words: str, writable: tuple[str, ...] = ()) -> list[str]:
        """Return the command that runs a program. With `writable`, other folders are read-only."""
        root = shlex.quote(str(self.root))
        mounts = [f"mount -t proc proc {root}/proc"]
        if writable:
            mounts = [f"mount --bind {root} {root}", f"mount -t proc proc {root}/proc"]
            mounts += [f"mount --bind {root}/{name} {root}/{name}" for name in writable]
            mounts += [f"mount -o remount,bind,ro {root}"]
        inside = "; ".join([*mounts, 'exec chroot "$0" "$@"'])
        return [
            "unshare",
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "sh",
            "-ec",
            inside,
            str(self.root),
            *words,
        ]

    def run(self, *words: str, writable: tuple[str, ...] = (), **variables: str) -> str:
        trusted = dict.fromkeys(("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"), str(CERTIFICATES))
        process = subprocess.run(
            self.command(*words, writable=writable),
            env=environ(Path("/root"), **trusted, **variables),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        assert process.returncode == 0, process.stdout
        return process.stdout

    def files(self, *folders: str) -> dict[str, int]:
        """Return the times of all files below some folders."""
        return {
            str(path): path.lstat().st_mtime_ns
            for folder in folders
            for path in (self.root / folder).rglob("*")
            if "__pycache__" not in path.parts
        }


def fresh_debian(folder: Path, packages: str) -> Chroot:
    """Return a Debian 12 with these packages in a folder, which uses the certificates of this machine."""
    if os.getuid() != 0 or shutil.which("debootstrap") is None:
        pytest.skip("this test needs root and debootstrap (Debian: apt install debootstrap)")
    made = subprocess.run(
        ["debootstrap", "--variant=minbase", f"--include={packages}", "bookworm", folder],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stdout[-2000:]
    shutil.copy("/etc/resolv.conf", folder / "etc")
    shutil.copy(CERTIFICATES, folder / "etc" / "ssl" / "certs")
    return Chroot(folder)


@pytest.fixture
def debian(tmp_path: Path, wheel: Path) -> Iterator[Chroot]:
    """A fresh Debian 12 with Python, systemd, the script and a wheel of svc."""
    made = fresh_debian(tmp_path / "debian", "ca-certificates,python3,python3-venv,systemd")
    shutil.copy(SCRIPT, made.root / "install.sh")
    shutil.copy(wheel, made.root / wheel.name)
    yield made
    shutil.rmtree(made.root)


def is_healthy(control: int) -> bool:
    """Return whether the control API on a port answers: the service prints its code before it listens."""
    try:
        return httpx.get(f"http://127.0.0.1:{control}/v1/health").status_code == 200
    except httpx.TransportError:
        return False


@pytest.mark.nightly
@pytest.mark.slow(seconds=300)
def test_fresh_debian_gets_a_service_twice_that_its_unit_starts(debian: Chroot, wheel: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as first, socket.create_server(("127.0.0.1", 0)) as second:
        listen, control = (each.getsockname()[1] for each in (first, second))
    words = ["sh", "/install.sh", "--server", "--domain", "apps.example", "--"]
    words += ["--listen", f"127.0.0.1:{listen}", "--control", f"127.0.0.1:{control}"]
    printed = debian.run(*words, SVC_SOURCE=f"/{wheel.name}")
    assert "systemd does not run here" in printed and "journalctl -u svc" in printed
    before = debian.files("etc", "opt/svc", "var/lib/svc")
    debian.run(*words, SVC_SOURCE=f"/{wheel.name}")
    assert debian.files("etc", "opt/svc", "var/lib/svc") == before
    enabled = debian.root / "etc/systemd/system/multi-user.target.wants/svc.service"
    assert enabled.is_symlink()
    debian.run(
        "systemd-analyze", "verify", "/etc/systemd/system/svc.service", "/etc/systemd/system/svc.socket"
    )
    unit = (debian.root / "etc/systemd/system/svc.service").read_text()
    (start,) = re.findall("ExecStart=(.*)", unit)
    run = debian.command(
        "runuser", "-u", "svc", "--", "env", "SVC_HOME=/var/lib/svc/data", *shlex.split(start)
    )
    with subprocess.Popen(
        run, env=environ(Path("/var/lib/svc")), stderr=subprocess.PIPE, text=True
    ) as service:
        try:
            assert service.stderr is not None
            logged = next((line for line in service.stderr if "claim it with the code" in line), None)
            assert logged is not None
            until(lambda: is_healthy(control))
        finally:
            service.kill()
    debian.run("sh", "/install.sh", "--server", "--uninstall")
    assert not (debian.root / "opt/svc").exists() and not enabled.is_symlink()
    assert (debian.root / "var/lib/svc/data").is_dir()
