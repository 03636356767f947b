import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from engine.manifest.load import load
from svc_tui.commands.new import templates
from svc_tui.main import run


def new(*arguments: str) -> int:
    return run(["new", *arguments])


@pytest.mark.parametrize("template", ["static", "js", "pulse"])
def test_every_template_makes_a_valid_project(tmp_path: Path, template: str) -> None:
    target = tmp_path / "süß und weit" / "my-app"
    assert new(str(target), "--template", template) == 0
    project = load(target)
    assert project.name == "my-app"
    assert project.front is not None
    assert not any("PROJECT" in path.read_text() for path in target.rglob("*") if path.is_file())


def test_what_is_there_is_never_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "app"
    target.mkdir()
    (target / "mine.txt").write_text("mine")
    assert new(str(target)) == 1
    assert [path.name for path in target.iterdir()] == ["mine.txt"]
    assert "not empty" in capsys.readouterr().err


def test_an_empty_folder_may_become_the_project(tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    assert new(str(tmp_path / "app"), "-t", "static") == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["My App"], "a-z"),
        (["app", "-t", "puls"], 'Did you mean "pulse"?'),
        ([], "NAME"),
    ],
)
def test_bad_arguments(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert new(*arguments) == 2
    assert words in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_wheel_carries_every_package_and_template(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(tmp_path), str(root)]
    subprocess.run(command, check=True)
    names = set(zipfile.ZipFile(next(tmp_path.glob("*.whl"))).namelist())
    for package in ("svc_tui", "engine", "lanes", "doors", "screens"):
        assert f"{package}/__init__.py" in names
    for template in templates():
        assert f"svc_tui/templates/{template}/svc.toml" in names
    assert "lanes/js/node/package-lock.json" in names and "lanes/js/glue/runtime.js" in names
