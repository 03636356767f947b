"""Mistakes in a manifest, each with its position and a hint."""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path

from engine.errors import SvcError
from engine.manifest.positions import KeyPath

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_BARE = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True, order=True)
class ManifestProblem:
    """One mistake.

    `line` and `column` count from 1; line 0 means the file as a whole. `key` is the key's path as TOML
    writes it (`resource.web.mounts."/api/*"`), or empty. `hint` is the next step, or empty.
    """

    line: int
    column: int
    key: str
    message: str
    hint: str = ""


class ManifestError(SvcError):
    """`svc.toml` is invalid. `problems` are in the order of the file, `path` is the file."""

    code = "manifest"

    def __init__(self, path: Path, problems: Iterable[ManifestProblem]) -> None:
        self.path = path
        self.problems = tuple(sorted({_on_one_line(problem) for problem in problems}))
        count = "1 mistake" if len(self.problems) == 1 else f"{len(self.problems)} mistakes"
        self.summary = f"{path.name} has {count}"
        listing = "\n".join(
            f"  {path.name}:{p.line}  {p.key + ': ' if p.key else ''}{p.message}"
            + (f"\n      {p.hint}" if p.hint else "")
            for p in self.problems
        )
        super().__init__(f"{self.summary}\n{listing}")


def mistake(path: Path, message: str, hint: str, *, line: int = 0, column: int = 0) -> ManifestError:
    """Return the error for one mistake that belongs to no key."""
    return ManifestError(path, [ManifestProblem(line, column, "", message, hint)])


def _on_one_line(problem: ManifestProblem) -> ManifestProblem:
    """Escape the control characters that message and hint quote from the file."""
    return replace(problem, message=_escaped(problem.message), hint=_escaped(problem.hint))


def _escaped(text: str) -> str:
    return _CONTROL.sub(lambda match: json.dumps(match[0])[1:-1], text)


def dotted(path: KeyPath) -> str:
    """Format a key path as TOML does: `resource.web.egress[0]`, `mounts."/api/*"`."""
    written = ""
    for part in path:
        if isinstance(part, int):
            written += f"[{part}]"
            continue
        name = part if _BARE.fullmatch(part) else json.dumps(part, ensure_ascii=False)
        written += f".{name}" if written else name
    return written


def did_you_mean(word: str, choices: list[str]) -> str:
    """Return `Did you mean "…"?`, or the list of choices."""
    close = get_close_matches(word.lower(), choices, n=1, cutoff=0.5)
    if close:
        return f'Did you mean "{close[0]}"?'
    return f"Possible: {', '.join(choices)}." if choices else ""


def alternatives(choices: Sequence[str]) -> str:
    """Return choices as `a, b or c`."""
    return f"{', '.join(choices[:-1])} or {choices[-1]}" if len(choices) > 1 else "".join(choices)
