"""The wheel, installed into an empty environment outside of the repository."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import urllib.request
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest
from uv import find_uv_bin

from engine.manifest.load import load
from svc_tui.project.scaffold import templates

ROOT = Path(__file__).parents[2]
UV = find_uv_bin()
LINE = re.compile(rb"http://localhost:\d+/")


def interpreters() -> list[Path]:
    """Return one executable for every minor version of Python from 3.11 on this machine."""
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    paths = [path for folder in folders for path in sorted(folder.glob("python3.[1-9][0-9]"))]
    paths += sorted(pyenv.glob("versions/3.*/bin/python3"))
    versions: dict[str, Path] = {}
    for path in (Path(sys.executable), *paths):
        command = [path, "-c", "import ensurepip, sys; print(*sys.version_info[:2], sep='.')"]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        version = answer.stdout.strip()
        if answer.returncode == 0 and int(version.split(".")[1]) >= 11:
            versions.setdefault(version, path)
    return list(versions.values())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([UV, "build", "--quiet", "--wheel", "--out-dir", folder, ROOT], check=True)
    return next(folder.glob("*.whl"))


@pytest.mark.slow
def test_wheel_contains_every_package_and_template(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site packages"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    tracked = subprocess.run(
        ["git", "ls-files", "-z", "svc_tui", "engine", "lanes", "doors", "screens"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    named = [name for name in tracked.stdout.split("\0") if (ROOT / name).is_file()]
    assert [name for name in named if not (site / name).is_file()] == []
    schema = (ROOT / "docs" / "reference" / "manifest.schema.json").read_bytes()
    assert (site / "svc_tui" / "manifest.schema.json").read_bytes() == schema
    script = (
        "import sys, svc_tui; assert 'site packages' in svc_tui.__file__; import svc_tui.main as m; m.main()"
    )
    for template in templates():
        process = subprocess.run(
            [sys.executable, "-c", script, "new", template, "--template", template],
            env=os.environ | {"PYTHONPATH": str(site)},
            cwd=tmp_path,
            check=True,
            capture_output=True,
            text=True,
        )
        assert process.stdout == f"  cd {template}\n  svc\n"
        assert load(tmp_path / template).name == template
    for file in (".gitignore", "Cargo.lock", "svc-guest/src/abi/world.bin"):
        assert (tmp_path / "rust" / file).is_file()
    for file in (".gitignore", "go.mod", "main.go"):
        assert (tmp_path / "go" / file).is_file()
    for sample in ("guestbook", "members", "polyglot"):
        for file in ("rust/.gitignore", "rust/Cargo.lock", "rust/svc-guest/src/abi/world.bin", "go/go.mod"):
            assert (tmp_path / sample / file).is_file()
    assert (tmp_path / "gallery" / "rust/svc-guest/src/abi/world.bin").is_file()
    assert (tmp_path / "guestbook" / "tables" / "001-entries.sql").is_file()


@pytest.mark.slow
def test_description_of_the_wheel_has_no_relative_link(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = message_from_bytes(archive.read(name))
    description = metadata.get_payload()
    assert isinstance(description, str)
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert description.startswith("# svc\n")
    assert "Apache-2.0" in description.splitlines()[-3]
    assert re.findall(r"\]\((?!https?:)[^)]*\)", description) == []


@pytest.mark.nightly
@pytest.mark.slow(seconds=100)
@pytest.mark.timeout(1200)
def test_installed_wheel_creates_and_serves_a_project_on_every_python(wheel: Path, tmp_path: Path) -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environ["SVC_HOME"] = str(tmp_path / "home")
    for python in interpreters():
        folder = tmp_path / "environment"
        subprocess.run([UV, "venv", "--quiet", "--python", python, folder], check=True, env=environ)
        command = [UV, "pip", "install", "--quiet", "--python", folder / "bin" / "python", wheel]
        subprocess.run(command, check=True, cwd=tmp_path, env=environ)
        svc = folder / "bin" / "svc"
        version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
        printed = subprocess.run([svc, "--version"], check=True, capture_output=True, text=True, env=environ)
        assert printed.stdout == f"svc {version}\n"
        subprocess.run([svc, "new", "app", "-t", "static"], check=True, cwd=tmp_path, env=environ)
        assert "<html" in first_page(svc, tmp_path / "app", environ)
        shutil.rmtree(folder)
        shutil.rmtree(tmp_path / "app")


def first_page(svc: Path, project: Path, environ: dict[str, str]) -> str:
    """Start `svc dev`, fetch the page at the address that it prints, and stop it."""
    command = [svc, "dev", "--port", "0"]
    with subprocess.Popen(command, cwd=project, env=environ, stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout is not None
            url = next(match[0] for line in server.stdout if (match := LINE.search(line)))
            with urllib.request.urlopen(url.decode(), timeout=30) as response:
                return str(response.read().decode())
        finally:
            server.terminate()
