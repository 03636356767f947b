import re
from pathlib import Path
from typing import Any

import pytest
import typer

from svc_tui.main import COMMANDS, app, run
from svc_tui.project.scaffold import templates
from svc_tui.terminal.stderr import ExitCode

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "reference" / "cli.md").read_text(encoding="utf-8")
COMMAND_PAGES = {
    path.stem: path.read_text(encoding="utf-8") for path in (DOCS / "reference" / "commands").glob("*.md")
}


def command(name: str) -> Any:
    group = typer.main.get_command(app)
    context = typer.Context(group)
    return group.get_command(context, name)  # type: ignore[attr-defined]


def options(of: Any) -> set[str]:
    names = [name for parameter in of.params for name in (*parameter.opts, *parameter.secondary_opts)]
    own = {name for name in names if name.startswith("-")}
    return own.union(*(options(part) for part in getattr(of, "commands", {}).values()))


def page(name: str) -> str:
    text = COMMAND_PAGES.get(name, "")
    assert re.match(rf"# svc {name}\b", text), f"docs/reference/commands/{name}.md is not about svc {name}"
    return text


def test_every_global_option_is_documented() -> None:
    for option in options(typer.main.get_command(app)):
        assert f"`{option}" in PAGE, f"docs/reference/cli.md does not describe {option}"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_a_command_is_documented_and_no_other(name: str) -> None:
    text = page(name)
    known = options(command(name))
    for option in known - {"--help"}:
        assert f"`{option}`" in text, f"docs/reference/commands/{name}.md: {option} is missing"
    rows = re.findall(r"^\| (`-.*?) \|", text, re.MULTILINE)
    documented = {option for row in rows for option in re.findall(r"`(--?[\w-]+)", row)}
    assert documented <= known, f"docs/reference/commands/{name}.md: {documented - known} is not there"


@pytest.mark.parametrize("name", [name for name in COMMANDS if hasattr(command(name), "commands")])
def test_every_command_of_a_group_is_documented(name: str) -> None:
    assert [part for part in command(name).commands if f"`svc {name} {part}" not in page(name)] == []


@pytest.mark.parametrize("name", ["", *(name for name in COMMANDS if hasattr(command(name), "commands"))])
def test_help_of_a_group_shows_complete_summaries(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run([*name.split(), "--help"]) == 0
    assert [line for line in capsys.readouterr().out.splitlines()[1:] if line.endswith("...")] == []


def test_command_list_names_exactly_the_command_pages() -> None:
    assert set(COMMAND_PAGES) == set(COMMANDS)
    assert re.findall(r"^\| \[svc ([\w-]+)\]\(commands/\1\.md\)", PAGE, re.MULTILINE) == sorted(
        COMMANDS, key=lambda name: PAGE.index(f"(commands/{name}.md)")
    )


def test_every_exit_code_is_documented() -> None:
    rows = re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)
    assert [int(row) for row in rows] == sorted(ExitCode)


def test_every_template_is_documented() -> None:
    for template in templates():
        assert f"`{template}`" in page("new")
