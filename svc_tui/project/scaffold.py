"""Making a Project from a template: `svc new`, or the Console where there is none.

Owns which templates there are and that nothing which is there is lost. Prints nothing.
"""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from engine.errors import SvcError
from engine.manifest.problems import did_you_mean
from engine.manifest.schema import NAME_RULE, is_name

TEMPLATES = {
    "notes": "a page, a js API and a table",
    "pulse": "a page with live numbers from a private js Resource",
    "guestbook": "a page over a table that js, go and rust share",
    "polyglot": "one page, the same interface in js, go and rust",
    "js": "one js Resource: text, JSON, an event stream",
    "go": "the same in Go, with a page",
    "rust": "the same in Rust, with a page",
    "static": "a page",
}
"""The templates, and what each shows."""
PLACEHOLDER = "PROJECT"
_PACKAGE = Path(__file__).resolve().parents[1]
_SAMPLES = ("notes", "pulse", "polyglot", "guestbook")
_LEFT_OUT = shutil.ignore_patterns(
    *(".svc", "node_modules", "target", "go.work", "go.work.sum", "__pycache__", "dist", ".DS_Store")
)
_JS_TYPES = (_PACKAGE.parent / "lanes" / "js" / "guest" / "svc-guest.d.ts",)
_TYPES = {"js": _JS_TYPES, "notes": _JS_TYPES}
"""What a template gets besides its own files: types of the guest library, for editors."""
_SUFFIXES = (".toml", ".js", ".html", ".md")


def templates() -> dict[str, Path]:
    """Return the folder of each template.

    The sample applications are templates too. A wheel has them in `templates/`, a checkout in `sample-apps/`.
    """
    found = {path.name: path for path in sorted((_PACKAGE / "templates").iterdir()) if path.is_dir()}
    for name in _SAMPLES:
        sample = _PACKAGE.parent / "sample-apps" / name
        if name not in found and sample.is_dir():
            found[name] = sample
    return found


def create_project(target: Path, template: str) -> None:
    """Make a Project in a folder that is empty or not there yet, and named by its last part.

    Raises `SvcError`, and then nothing was made.
    """
    project = target.name
    if not is_name(project):
        raise SvcError(f'"{project}" is not a name for a Project', NAME_RULE, code="usage")
    known = templates()
    if template not in known:
        hint = did_you_mean(template, list(known))
        raise SvcError(f'there is no template "{template}"', hint, code="usage")
    try:
        _refuse(target)
        _copy(known[template], target, project, _TYPES.get(template, ()))
    except OSError as error:
        raise SvcError(
            f"{target} could not be made: {error.strerror}", "Choose a folder you may write."
        ) from error


def _refuse(target: Path) -> None:
    """Raise `SvcError` when something is there that must not be lost."""
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise SvcError(f"{target} is there already and not a folder", "Take another name.")
    if target.is_dir() and any(target.iterdir()):
        raise SvcError(f"{target} is there already and not empty", "Take another name, or empty it first.")


def _copy(source: Path, target: Path, project: str, more: tuple[Path, ...]) -> None:
    """Copy a template, and the files that go with it, beside its place and move it there whole."""
    parent = target.absolute().parent
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".svc-new-", dir=parent) as making:
        made = Path(making) / "project"
        shutil.copytree(source, made, ignore=_LEFT_OUT, copy_function=shutil.copyfile)
        for path in more:
            shutil.copyfile(path, made / path.name)
        for path in _texts(made):
            text = path.read_text(encoding="utf-8")
            changed = text.replace(PLACEHOLDER, project)
            if path == made / "svc.toml":
                changed = changed.replace(f'name = "{source.name}"', f'name = "{project}"', 1)
            if changed != text:
                path.write_text(changed, encoding="utf-8")
        if target.is_dir():
            target.rmdir()
        made.replace(target)


def _texts(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.suffix in _SUFFIXES)
