"""Project templates: `svc new`, and the start screen of the Console."""

import shutil
from contextlib import suppress
from pathlib import Path

from engine.errors import InvalidUsage, SvcError
from engine.files.data_dir import DATA_DIR, ensure_data_dir
from engine.files.temporary import temporary_folder
from engine.manifest import MANIFEST
from engine.manifest.problems import did_you_mean
from engine.manifest.schema import NAME_RULE, is_name, json_schema_text
from svc_tui.project import resource_starter

TEMPLATES = {
    "notes": "a page, a js API and a table",
    "pulse": "a page with live numbers from a private js resource",
    "guestbook": "a page over a table that js, go and rust share",
    "members": "sign up, log in and a protected page, in js, go and rust",
    "inbox": "signed webhooks in, a job for each with retries, a nightly report",
    "gallery": "uploads of 200 MB with progress, images resized by a job in rust, videos with seek",
    "polyglot": "one page, the same interface in js, go and rust",
    "js": "one js resource: text, JSON, an event stream",
    "go": "the same in Go, with a page",
    "rust": "the same in Rust, with a page",
    "static": "a page",
    "sveltekit": "SvelteKit with server rendering: a form over a table",
    "react-router": "the same with React Router",
    "hono": "the same with Hono",
    "astro": "the same with Astro",
    "nuxt": "the same with Nuxt",
}
PLACEHOLDER = "PROJECT"
SCHEMA_FILE = "manifest.schema.json"
"""File below `.svc` that the `#:schema` line of every template names."""
_PACKAGE = Path(__file__).resolve().parents[1]
_NEW_MANIFEST = f'#:schema ./{DATA_DIR}/{SCHEMA_FILE}\n[project]\nname = "{PLACEHOLDER}"\n'
_SAMPLES = ("notes", "pulse", "polyglot", "guestbook", "members", "inbox", "gallery")
_IGNORED = shutil.ignore_patterns(
    ".svc", "node_modules", "target", "go.work", "go.work.sum", "__pycache__", "dist", ".DS_Store"
)
JS_TYPES = _PACKAGE.parent / "lanes" / "js" / "guest" / "svc-guest.d.ts"
"""Types of the guest library of the js lane, for editors."""
AGENTS = _PACKAGE / "templates" / "AGENTS.md"
"""Commands to run, inspect, change and test a project, for programs that work on it."""
_EXTRA_FILES = dict.fromkeys(("js", "notes", "inbox", "gallery"), (JS_TYPES,))
"""Files that a template gets besides its own."""
_TEXT_SUFFIXES = (".toml", ".js", ".html", ".md")


def templates() -> dict[str, Path]:
    """Return the folder of each template that is not a framework.

    A wheel contains the sample applications among the templates; a checkout has them in `sample-apps/`.
    """
    folders = {path.name: path for path in sorted((_PACKAGE / "templates").iterdir()) if path.is_dir()}
    for name in _SAMPLES:
        sample = _PACKAGE.parent / "sample-apps" / name
        if name not in folders and sample.is_dir():
            folders[name] = sample
    return folders


def create_project(target: Path, template: str) -> None:
    """Create a project in a new or empty folder; the last part of the path is the project's name.

    Raises `SvcError`, and creates nothing then.
    """
    name = target.name
    if not is_name(name):
        raise InvalidUsage(f'"{name}" is not a valid project name', NAME_RULE)
    if (refused := resource_starter.REFUSED.get(template)) is not None:
        raise InvalidUsage(refused["reason"], refused["remedy"])
    if template not in TEMPLATES:
        raise InvalidUsage(f'unknown template "{template}"', did_you_mean(template, list(TEMPLATES)))
    try:
        if target.is_symlink() or (target.exists() and not target.is_dir()):
            raise SvcError(f"{target} exists and is not a folder", "Choose another name.")
        if target.is_dir() and any(target.iterdir()):
            raise SvcError(f"{target} is not empty", "Choose another name, or empty the folder first.")
        _copy(template, target, name, (AGENTS, *_EXTRA_FILES.get(template, ())))
    except OSError as error:
        hint = "Choose a folder that you can write to."
        raise SvcError(f"cannot create {target}: {error.strerror}", hint) from error


def write_schema(project: Path) -> None:
    """Write the JSON Schema of this version to the project's `.svc` folder, for editors."""
    file = project / DATA_DIR / SCHEMA_FILE
    text = json_schema_text()
    with suppress(OSError):
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            ensure_data_dir(file.parent)
            file.write_text(text, encoding="utf-8")


def _copy(template: str, target: Path, name: str, extra_files: tuple[Path, ...]) -> None:
    """Copy a template into a temporary folder beside the target, then rename it to the target."""
    parent = target.absolute().parent
    parent.mkdir(parents=True, exist_ok=True)
    with temporary_folder(".svc-new-", parent) as temporary:
        project = temporary / "project"
        if template in resource_starter.FRAMEWORKS:
            project.mkdir()
            (project / MANIFEST).write_text(_NEW_MANIFEST, encoding="utf-8")
            resource_starter.start(project, template)
        else:
            source = templates()[template]
            shutil.copytree(source, project, ignore=_IGNORED, copy_function=shutil.copyfile)
        for path in extra_files:
            shutil.copyfile(path, project / path.name)
        for path in (file for file in project.rglob("*") if file.suffix in _TEXT_SUFFIXES):
            text = path.read_text(encoding="utf-8")
            replaced = text.replace(PLACEHOLDER, name)
            if path == project / MANIFEST:
                replaced = replaced.replace(f'name = "{template}"', f'name = "{name}"', 1)
            if replaced != text:
                path.write_text(replaced, encoding="utf-8")
        write_schema(project)
        if target.is_dir():
            for path in project.iterdir():  # The folder may be the current one of a shell.
                path.replace(target / path.name)
        else:
            project.replace(target)
