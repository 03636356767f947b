import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from engine.manifest.load import load
from svc_tui.main import run
from svc_tui.project.resource_starter import FRAMEWORKS
from svc_tui.project.scaffold import SCHEMA_FILE, TEMPLATES, templates
from tests.svc_tui.terminal.test_prompt import Terminal


def new(*arguments: str) -> int:
    return run(["new", *arguments])


@pytest.mark.parametrize("template", TEMPLATES)
def test_new_of_every_template_creates_a_valid_project(tmp_path: Path, template: str) -> None:
    target = tmp_path / "süß und weit" / "my-app"
    assert new(str(target), "--template", template) == 0
    project = load(target)
    assert project.name == "my-app"
    assert project.front is not None
    assert (target / "AGENTS.md").read_text(encoding="utf-8").startswith("# my-app\n")
    assert not any(b"PROJECT" in path.read_bytes() for path in target.rglob("*") if path.is_file())


@pytest.mark.parametrize("template", TEMPLATES)
def test_packages_of_npm_are_ignored_beside_js_sources(tmp_path: Path, template: str) -> None:
    assert new(str(tmp_path / "app"), "-t", template) == 0
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path / "app", check=True)
    for resource in load(tmp_path / "app").resources.values():
        file = resource.workdir / "node_modules" / "hono" / "index.js"
        ignored = subprocess.run(["git", "check-ignore", "--quiet", str(file)], cwd=tmp_path / "app")
        assert resource.lane != "js" or ignored.returncode == 0


def test_new_writes_the_schema_that_the_first_line_of_the_manifest_names(tmp_path: Path) -> None:
    assert new(str(tmp_path / "app"), "-t", "static") == 0
    first = (tmp_path / "app" / "svc.toml").read_text().splitlines()[0]
    schema = tmp_path / "app" / first.removeprefix("#:schema ")
    assert json.loads(schema.read_text())["title"] == "svc.toml"


@pytest.mark.parametrize("template", templates())
def test_every_template_names_the_schema(template: str) -> None:
    manifest = (templates()[template] / "svc.toml").read_text()
    assert manifest.startswith(f"#:schema ./.svc/{SCHEMA_FILE}\n")


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_new_project_of_a_framework_has_only_its_resources(tmp_path: Path, framework: str) -> None:
    assert new(str(tmp_path / "shop"), "-t", framework) == 0
    project = load(tmp_path / "shop")
    assert list(project.resources) == ["web", "web-server"]
    assert project.front is not None and project.front.name == "web"
    assert (tmp_path / "shop" / "tables" / "0001-web.sql").is_file()
    assert (tmp_path / "shop" / "svc.toml").read_text().startswith(f"#:schema ./.svc/{SCHEMA_FILE}\n")


def test_new_of_a_framework_that_cannot_run_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert new(str(tmp_path / "shop"), "-t", "next") == 2
    assert "Next.js cannot run on svc" in capsys.readouterr().err
    assert not (tmp_path / "shop").exists()


def test_new_in_a_folder_with_files_fails_and_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "app"
    target.mkdir()
    (target / "mine.txt").write_text("mine")
    assert new(str(target)) == 1
    assert [path.name for path in target.iterdir()] == ["mine.txt"]
    assert "not empty" in capsys.readouterr().err


def test_new_without_a_template_uses_notes(tmp_path: Path) -> None:
    assert new(str(tmp_path / "app")) == 0
    assert (tmp_path / "app" / "tables" / "0001-notes.sql").is_file()
    assert (tmp_path / "app" / "svc-guest.d.ts").is_file()


def test_new_in_an_empty_folder_succeeds(tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    assert new(str(tmp_path / "app"), "-t", "static") == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["My App"], "a-z"), (["app", "-t", "puls"], 'Did you mean "pulse"?'), ([], "svc new my-app")],
)
def test_new_with_invalid_arguments_fails(
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


@pytest.mark.parametrize("existing", ["file", "link", "broken link"])
def test_new_over_a_file_or_link_fails_and_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], existing: str
) -> None:
    (tmp_path / "other").mkdir()
    target = tmp_path / "app"
    if existing == "file":
        target.touch()
    else:
        target.symlink_to(tmp_path / ("other" if existing == "link" else "nothing"))
    assert new(str(target), "-t", "js") == 1
    assert "not a folder" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["app", "other"]
    assert list((tmp_path / "other").iterdir()) == []


def test_new_leaves_nothing_after_a_failed_copy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert new(str(tmp_path / "file" / "app"), "-t", "static") == 1
    assert "cannot create" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_new_prints_the_next_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert new("weit weg/my-app", "-t", "static") == 0
    assert capsys.readouterr().out == "  cd 'weit weg/my-app'\n  svc\n"


def test_new_with_a_dot_uses_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "my-app").mkdir()
    monkeypatch.chdir(tmp_path / "my-app")
    assert new(".", "-t", "static") == 0
    assert capsys.readouterr().out == "  svc\n"
    assert load(Path.cwd()).name == "my-app"


def test_new_without_a_name_lists_the_templates_and_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert new() == 2
    assert "svc new my-app" in capsys.readouterr().err
    monkeypatch.setattr(sys, "stdin", Terminal("my-app\nstatic\n"))
    assert new() == 0
    assert "a page, a js API and a table" in capsys.readouterr().err
    assert load(tmp_path / "my-app").front is not None


def test_new_inside_a_project_warns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert new(str(tmp_path / "app"), "-t", "static") == 0
    assert "warning" not in capsys.readouterr().err
    assert new(str(tmp_path / "app" / "sub"), "-t", "static") == 0
    assert f"is inside the project in {tmp_path / 'app'}" in capsys.readouterr().err


def test_new_with_a_trailing_slash_uses_the_last_part_as_name(tmp_path: Path) -> None:
    assert new(str(tmp_path / "app") + "/", "-t", "js") == 0
    assert load(tmp_path / "app").name == "app"


def test_js_template_contains_types_of_the_guest_library(tmp_path: Path) -> None:
    assert new(str(tmp_path / "app"), "-t", "js") == 0
    types = Path(__file__).parents[2] / "lanes" / "js" / "guest" / "svc-guest.d.ts"
    assert (tmp_path / "app" / "svc-guest.d.ts").read_text() == types.read_text()
    assert "svc-guest.d.ts" in json.loads((tmp_path / "app" / "jsconfig.json").read_text())["include"]


def test_new_skips_build_output_of_a_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sample = tmp_path / "built"
    shutil.copytree(templates()["polyglot"], sample)
    for name in ("rust/target/debug/x", "go/go.work", "go/go.work.sum", ".svc/x"):
        (sample / name).parent.mkdir(parents=True, exist_ok=True)
        (sample / name).touch()
    monkeypatch.setattr("svc_tui.project.scaffold.templates", lambda: {"polyglot": sample})
    assert new(str(tmp_path / "app"), "-t", "polyglot") == 0
    result = {path.relative_to(tmp_path / "app").as_posix() for path in (tmp_path / "app").rglob("*")}
    assert {"rust/Cargo.lock", "rust/svc-guest/Cargo.toml", "go/go.mod", "go/.gitignore"} <= result
    assert {name for name in result if "target" in name or "go.work" in name or name == ".svc/x"} == set()
