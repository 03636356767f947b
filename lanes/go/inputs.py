"""Build inputs, listed by Go: packages of the user, and the files that select modules."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engine.lane import BuildRequest
from lanes.go.toolchain import Go
from lanes.go.workspace import LIBRARY, Workspace
from lanes.process import run_group

_FIELDS = "Dir,Standard,Module,GoFiles,SFiles,EmbedFiles"


async def inputs(go: Go, request: BuildRequest, work: Workspace) -> frozenset[Path]:
    """Return these files; none if Go cannot list them, for example if the program does not compile."""
    output = bytearray()
    environ = {**go.environ(os.environ), "GOWORK": str(work.file)}
    command = [go.program, "list", "-deps", f"-json={_FIELDS}", "."]
    if await run_group(command, request.resource.workdir, output.extend, lambda _: None, environ) != 0:
        return frozenset()
    paths = {folder / name for folder in {work.module, *work.modules} for name in ("go.mod", "go.sum")}
    if work.user_file is not None:
        paths |= {work.user_file, work.user_file.with_name("go.work.sum")}
    for package in _packages(output.decode()):
        folder = Path(package["Dir"]).resolve()
        is_downloaded = folder.is_relative_to(work.downloads)
        if package.get("Standard") or is_downloaded or folder.is_relative_to(LIBRARY):
            continue
        names = [name for kind in ("GoFiles", "SFiles", "EmbedFiles") for name in package.get(kind) or ()]
        paths |= {folder / name for name in names}
        if settings := package.get("Module", {}).get("GoMod"):
            paths.add(Path(settings))
    return frozenset(path for path in paths if path.is_file())


def _packages(text: str) -> Iterator[dict[str, Any]]:
    decoder, at = json.JSONDecoder(), 0
    while start := text.find("{", at) + 1:
        package, at = decoder.raw_decode(text, start - 1)
        yield package
