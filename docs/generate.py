"""Generator of the reference pages that come from the code.

`make docs` writes limits.md, errors.md, environment.md and manifest.schema.json, and in cli.md, doors.md and
commands/ the parts between the comments `generated` and `end of generated`. It also writes the
statement of jobs into the guest libraries. `tests/test_docs.py` compares all of them.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from docs.environment_table import ENVIRONMENT
from docs.error_codes import CONTROL_CODES, TIMELINE_CODES
from docs.limits_table import LIMITS
from doors.jobs.door import GUEST_ADD
from engine.control.errors import DEFAULT_STATUS, STATUS
from engine.door import DOMAIN
from engine.errors import SvcError
from engine.gateway.problem import PROBLEM_TYPES as PLATFORM_CODES
from engine.manifest.schema import json_schema_text
from svc_tui import composition
from svc_tui.main import COMMANDS, app
from svc_tui.terminal import stderr
from svc_tui.terminal.stderr import ExitCode

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = ROOT / "docs" / "reference"
GUEST_JOBS = [
    ROOT / "lanes" / name for name in ("js/guest/jobs.js", "go/guest/jobs/jobs.go", "rust/guest/src/jobs.rs")
]
PACKAGES = ("svc_tui", "engine", "lanes", "doors", "screens")
NOTE = "<!-- Generated from the code by `make docs`. Edit docs/*.py instead. -->\n"
EXIT_CODES = {
    ExitCode.OK: "success",
    ExitCode.FAILED: "the command failed, or you declined its prompt",
    ExitCode.USAGE: "wrong usage, or a mistake in `svc.toml`",
    ExitCode.UNREACHABLE: "not logged in, or the service cannot be reached",
    ExitCode.TIMEOUT: "timed out",
    ExitCode.CONFLICT: "conflict: changed meanwhile, or already exists",
    ExitCode.INTERRUPTED: "interrupted by Ctrl+C",
}
_SECTION = re.compile(r"(<!-- generated: ([\w -]+) -->\n).*?(<!-- end of generated -->)", re.DOTALL)


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Return a Markdown table."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def error_codes() -> set[str]:
    """Return every error code that the product gives an `SvcError`."""
    codes = set()
    for path in (path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and node.bases:
                for statement in node.body:
                    if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "code":
                        codes.add(ast.literal_eval(statement.value))
            elif isinstance(node, ast.Call):
                for keyword in node.keywords:
                    if keyword.arg == "code" and isinstance(keyword.value, ast.Constant):
                        codes.add(keyword.value.value)
    return {code for code in codes if isinstance(code, str) and code}


LIMITS_PAGE = f"""# Limits

{NOTE}
All limits in one place. The last column says what happens beyond a limit; the codes are explained in
[Error codes](errors.md). Where `--workers` starts several processes, limits count per process.
"""
ERRORS_PAGE = f"""# Error codes

{NOTE}
Errors are problem documents (RFC 9457, `application/problem+json`) with `type`, `title`, `status` and `code`.
A browser gets a page instead. The code is stable: match on it, not on the text.
[Troubleshooting](../guides/operate/troubleshooting.md) has causes and remedies.

## Your application's addresses

svc answers with these codes when your code cannot. The document has `detail` and `request_id` too. Responses
with status 503 and 429 have `retry-after: 1`.

{{platform}}
Logs also show these codes, which no client receives:

{{timeline}}
## Doors

Responses of [Doors](doors.md) to your code, and those of signed URLs of files. `hint` is the remedy. A
request body over the limit of the Door is refused with 413 `body-too-large`.

Those of tables have SQLite's message as `detail`; `position` is the character in the SQL (from 1),
`statement` the statement of a batch (from 0). With `constraint`, the member of that name is `unique`,
`primary-key`, `not-null`, `check`, `foreign-key`, `type`, `trigger` or `other`. Web Crypto in JavaScript
turns those of crypto into a `DOMException`.

{{doors}}
## Control API and commands

The control API returns the status, a command ends with the exit code. The document has `hint` where a remedy
exists. Codes without a status occur in commands only.

{{control}}"""


def limits() -> str:
    """Return limits.md."""
    head = ("limit", "value", "change it with", "beyond it")
    return LIMITS_PAGE + "".join(f"\n## {title}\n\n{table(head, rows)}" for title, rows in LIMITS.items())


def errors() -> str:
    """Return errors.md."""
    head = ("code", "status", "meaning")
    control = [
        (
            f"`{code}`",
            str(STATUS.get(code, DEFAULT_STATUS)) if "API" in places else "",
            str(int(stderr.exit_code(SvcError("", code=code)))),
            meaning,
        )
        for code, (places, meaning) in sorted(CONTROL_CODES.items())
    ]
    return ERRORS_PAGE.format(
        platform=table(head, [(f"`{c}`", str(status), text) for c, (status, text) in PLATFORM_CODES.items()]),
        timeline=table(("code", "meaning"), [(f"`{code}`", text) for code, text in TIMELINE_CODES.items()]),
        doors="\n".join(
            f"### {door.name}\n\n"
            + table(
                head, [(f"`{code}`", str(kind.status), kind.meaning) for code, kind in door.problems.items()]
            )
            for door in composition.doors()
            if door.problems
        ),
        control=table(("code", "status", "exit code", "meaning"), control),
    )


def environment() -> str:
    """Return environment.md."""
    text = "# Environment variables\n\n" + NOTE
    for title, (introduction, rows) in ENVIRONMENT.items():
        text += f"\n## {title}\n\n{introduction}\n\n" + table(("variable", "meaning"), rows)
    return text


def command(name: str) -> Any:
    """Return a command of `svc` as Click has it."""
    group = typer.main.get_command(app)
    return group.get_command(typer.Context(group), name)  # type: ignore[attr-defined]


def option_rows(parameters: list[Any]) -> list[tuple[str, ...]]:
    """Return the rows of an option table: names, and help with range and default."""
    rows = []
    for option in parameters:
        if option.param_type_name != "option" or option.name == "help" or option.hidden:
            continue
        names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
        low, high = (getattr(option, bound, None) for bound in ("min", "max"))
        notes = []
        if high is not None:
            notes.append(f"{low} to {high}")
        if (
            option.default not in (None, False, "", ())
            and not callable(option.default)
            and not option.multiple
        ):
            notes.append(
                f"default: `{option.default:g}`"
                if isinstance(option.default, float)
                else f"default: `{option.default}`"
            )
        text = (getattr(option, "help", None) or "").strip()
        if notes and "default:" not in text:
            text = f"{text.rstrip('.')} ({', '.join(notes)})."
        rows.append((names, text))
    return rows


def synopsis(name: str, part: Any) -> str:
    """Return how a command is typed."""
    words = [f"svc {name}"]
    for argument in (each for each in part.params if each.param_type_name == "argument"):
        word = argument.metavar or argument.name.upper()
        word += "…" if argument.nargs == -1 and not word.endswith(("…", "...")) else ""
        words.append(word if argument.required or word.startswith("[") else f"[{word}]")
    if option_rows(part.params):
        words.insert(next((at for at, word in enumerate(words) if "--" in word), len(words)), "[OPTION…]")
    return " ".join(words)


def options(name: str) -> Iterator[str]:
    """Yield the synopsis, help and option table of a command and of the commands in it."""
    root = command(name)
    parts = getattr(root, "commands", None)
    if parts is None:
        yield f"```text\n{synopsis(name, root)}\n```\n"
        if rows := option_rows(root.params):
            yield "\n" + table(("option", "meaning"), rows)
        return
    if rows := option_rows(root.params):
        yield f"Options before the command:\n\n{table(('option', 'meaning'), rows)}\n"
    for number, (word, part) in enumerate(parts.items()):
        usage = synopsis(f"{name} {word}", part)
        summary = (part.help or "").strip().partition("\n")[0]
        yield ("\n" if number else "") + f"### `svc {name} {word}`\n\n{summary}\n\n```text\n{usage}\n```\n"
        if rows := option_rows(part.params):
            yield "\n" + table(("option", "meaning"), rows)


def doors_table() -> str:
    """Return the table of Doors, with links to their pages."""
    rows = []
    for door in composition.doors():
        variables = " and ".join(f"`{variable}`" for variable in door.variables)
        titles = {
            page: (ROOT / "docs" / page).read_text("utf-8").partition("\n")[0][2:] for page in door.pages
        }
        links = ", ".join(f"[{title}](../{page})" for page, title in titles.items())
        address, body = f"`http://{door.name}.{DOMAIN}`, {variables}", f"{door.max_body >> 20:,} MiB"
        rows.append((door.name, door.purpose, address, body, links))
    return table(("Door", "what it does", "address, in variable", "request body", "pages"), rows)


def section(path: Path, kind: str) -> str:
    """Return the generated section of a page."""
    if kind == "options":
        return "".join(options(path.stem))
    if kind == "exit codes":
        return table(("code", "meaning"), [(str(int(code)), EXIT_CODES[code]) for code in ExitCode])
    if kind == "commands":
        rows = [(f"[svc {name}](commands/{name}.md)", each.summary) for name, each in COMMANDS.items()]
        return table(("command", "purpose"), rows)
    if kind == "doors":
        return doors_table()
    group = typer.main.get_command(app)
    return table(("option", "meaning"), option_rows(group.params))


def pages() -> dict[Path, str]:
    """Return what every page with generated parts must contain."""
    contents = {
        REFERENCE / "limits.md": limits(),
        REFERENCE / "errors.md": errors(),
        REFERENCE / "environment.md": environment(),
        REFERENCE / "manifest.schema.json": json_schema_text(),
    }
    for path in (
        REFERENCE / "cli.md",
        REFERENCE / "doors.md",
        *sorted((REFERENCE / "commands").glob("*.md")),
    ):
        text = path.read_text(encoding="utf-8")

        def replaced(match: re.Match[str], path: Path = path) -> str:
            return f"{match[1]}\n{section(path, match[2])}\n{match[3]}"

        contents[path] = _SECTION.sub(replaced, text)
    for path in GUEST_JOBS:
        text = path.read_text(encoding="utf-8")
        contents[path] = re.sub(r"INSERT INTO _svc_jobs_add .*?\) VALUES .*?\)", GUEST_ADD, text)
    return contents


def main() -> int:
    """Write the pages that differ."""
    for path, text in pages().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            sys.stdout.write(f"wrote {path.relative_to(ROOT)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
