"""The cases: which packages and APIs are checked, with the versions of the packages."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

CASES = Path(__file__).with_name("cases")
_TITLE = re.compile(r"// (.+)\n")
_CHECK = re.compile(r"^  (?:async )?'([^']+)'", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Case:
    """One module of checks. `title` names its packages, separated by commas, or its part of the API."""

    kind: str
    name: str
    title: str
    checks: tuple[str, ...]

    @property
    def module(self) -> str:
        """The path of the module below `CASES`."""
        return f"{self.kind}/{self.name}.js"

    @property
    def packages(self) -> tuple[str, ...]:
        """The names of the npm packages."""
        return tuple(self.title.split(", "))


def cases(kind: str) -> list[Case]:
    """Return all cases of a kind (`packages` or `wintertc`), sorted by name."""
    result = []
    for path in sorted((CASES / kind).glob("*.js")):
        text = path.read_text(encoding="utf-8")
        title = _TITLE.match(text)
        assert title is not None, f"{path.name} does not begin with a title"
        result.append(Case(kind, path.stem, title[1], tuple(_CHECK.findall(text))))
    return result


def versions() -> dict[str, str]:
    """Return the pinned version of each package."""
    document = json.loads((CASES / "package.json").read_text(encoding="utf-8"))
    pinned: dict[str, str] = document["dependencies"]
    return pinned
