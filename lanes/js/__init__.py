"""The js lane: JavaScript and TypeScript on the fetch contract."""

import json
from pathlib import Path

from engine.manifest.model import LaneSpec

_USUAL = ("src/index.ts", "src/index.js", "index.ts", "index.js")


def default_entry(workdir: Path, root: Path) -> Path | None:
    """Return the first of `module` and `main` of package.json and the usual files that exists, or `None`.

    Ignores files outside of `root`, the resolved project folder. The lane reports a missing module at build
    time: files come and go during development.
    """
    for name in (*_package(workdir / "package.json"), *_USUAL):
        try:
            path = (workdir / name).resolve()
            if path.is_file() and path.is_relative_to(root):
                return path
        except (OSError, ValueError, RuntimeError):
            continue
    return None


def _package(path: Path) -> list[str]:
    try:
        package = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return []
    if not isinstance(package, dict):
        return []
    return [package[key] for key in ("module", "main") if isinstance(package.get(key), str)]


SPEC = LaneSpec(
    name="js",
    default_entry=default_entry,
    build_variables=("NODE_ENV",),
    build_for_memory=True,
    tone="yellow",
)
