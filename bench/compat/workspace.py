"""The folder in which cases are built: their sources, and the npm packages that they import."""

import asyncio
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from bench.compat.cases import CASES
from lanes.js.toolchain import NodeProgram, ensure, find


class PackagesMissing(Exception):
    """npm cannot install the packages."""


def node(cache: Path) -> NodeProgram:
    """Return the node of the js lane; the first use installs it. Raises `PackagesMissing`."""
    asyncio.run(ensure(cache, print))
    program = asyncio.run(find(cache))
    if isinstance(program, str):
        raise PackagesMissing(program)
    return program


def installed(cache: Path, program: NodeProgram, names: Collection[str] | None = None) -> Path:
    """Return the folder of the installed packages: those with `names`, or all. Raises `PackagesMissing`.

    The first use of a lock file installs them: about 500 MB if all.
    """
    manifests = _manifests(names)
    digest = sha256("".join(manifests.values()).encode()).hexdigest()[:16]
    folder = cache / "compat" / digest
    if (folder / "node_modules").is_dir():
        return folder / "node_modules"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".installing-", dir=folder.parent) as temporary:
        for name, text in manifests.items():
            (Path(temporary) / name).write_text(text)
        # `npm ci` refuses a lock file without the packages for other platforms.
        flags = (
            "--no-save",
            "--package-lock",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--fetch-retries=1",
        )
        process = subprocess.run(
            [*program.npm, "install", *flags], cwd=temporary, capture_output=True, text=True, check=False
        )
        if process.returncode != 0:
            errors = [line for line in process.stderr.splitlines() if re.match(r"npm error (?! +at )", line)]
            raise PackagesMissing("\n".join(errors[:8]) or process.stderr)
        folder.mkdir(exist_ok=True)
        try:
            (Path(temporary) / "node_modules").rename(folder / "node_modules")
        except OSError:
            if not (folder / "node_modules").is_dir():  # another process was faster
                raise
    return folder / "node_modules"


def _manifests(names: Collection[str] | None) -> dict[str, str]:
    """Return the manifest and the lock file of packages by file name; npm omits what only the lock names."""
    manifests = {name: (CASES / name).read_text() for name in ("package.json", "package-lock.json")}
    if names is not None:
        manifest = json.loads(manifests["package.json"])
        manifest["dependencies"] = {name: manifest["dependencies"][name] for name in names}
        manifests["package.json"] = json.dumps(manifest)
    return manifests


@contextmanager
def workspace(packages: Path) -> Iterator[Path]:
    """Yield a temporary copy of the cases beside the packages."""
    with tempfile.TemporaryDirectory(prefix="svc-compat-") as temporary:
        folder = Path(temporary).resolve() / "cases"
        shutil.copytree(CASES, folder)
        (folder / "node_modules").symlink_to(packages, target_is_directory=True)
        yield folder
