"""What is wrong with a manifest: every mistake at once, each with its place and remedy."""

from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from engine.errors import SvcError


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One mistake. `line` counts from 1 (0: the file as a whole); `key` is a dotted path or empty."""

    line: int
    key: str
    message: str
    hint: str = ""


class ManifestError(SvcError):
    """`svc.toml` is not valid; `problems` are in the order of the file, `path` is the file."""

    code = "manifest"

    def __init__(self, path: Path, problems: list[Problem]) -> None:
        self.path = path
        self.problems = tuple(sorted(problems))
        count = "1 mistake" if len(problems) == 1 else f"{len(problems)} mistakes"
        listing = "\n".join(
            f"  {path.name}:{p.line}  {p.key + ': ' if p.key else ''}{p.message}"
            + (f"\n      {p.hint}" if p.hint else "")
            for p in self.problems
        )
        super().__init__(f"{path.name} has {count}\n{listing}")


def did_you_mean(word: str, choices: list[str]) -> str:
    """Return `did you mean "…"?`, or what there is to choose from."""
    close = get_close_matches(word, choices, n=1, cutoff=0.5)
    if close:
        return f'did you mean "{close[0]}"?'
    return f"possible: {', '.join(choices)}" if choices else ""
