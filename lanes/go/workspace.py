"""Go workspace of a build: the user's modules and the guest library, without an edit of go.mod.

Builds use a go.work in the cache. A second one beside go.mod lets `go run .` and editors find the library;
it has a generated header and never replaces a user's file.
"""

import json
import os
import re
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from hashlib import sha256
from pathlib import Path

from engine.lane import GENERATED_HEADER, BuildFailed, BuildRequest
from lanes.go.toolchain import Go, write
from lanes.process import run

LIBRARY = Path(__file__).with_name("guest")
_MARK = f"{GENERATED_HEADER}: do not commit it."
_MIN_VERSION = "1.24"
_VENDOR_LIST, _VENDOR_MARK = "modules.txt", "## workspace\n"


@dataclass(frozen=True, slots=True)
class Workspace:
    """The go.work of a build. `module` is the folder of the user's go.mod; `modules` has all module folders.

    `user_file` is the user's own go.work, if any, and `vendor` the vendor folder in use. `root` is the GOROOT
    of the Go that builds these modules; the one on PATH can be another. `downloads` is its module cache.
    """

    file: Path
    module: Path
    _: KW_ONLY
    modules: tuple[Path, ...]
    user_file: Path | None
    vendor: Path | None
    root: Path
    downloads: Path


async def workspace(go: Go, request: BuildRequest) -> Workspace:
    """Write the workspace of a resource. Raises `BuildFailed`."""
    workdir = request.resource.workdir
    environ = go.environ(os.environ)
    if gowork := os.environ.get("GOWORK"):
        environ["GOWORK"] = gowork
    names = ("GOMOD", "GOWORK", "GOROOT", "GOMODCACHE")
    settings = await _json(go, ["env", "-json", *names], workdir, environ, request)
    module_file, work_file = settings["GOMOD"], settings["GOWORK"]
    if module_file in ("", os.devnull):
        raise BuildFailed(
            f"resource {request.resource.name}: there is no go.mod in {request.display_path(workdir)}",
            f"Run `go mod init {request.resource.name}` there; `svc new NAME --template go` has one.",
        )
    module = Path(module_file).parent
    user_file = None if work_file in ("", "off") or _is_written_by_svc(Path(work_file)) else Path(work_file)
    environ["GOWORK"] = "off"
    module_document = await _json(go, ["mod", "edit", "-json"], module, environ, request)
    versions, modules, replacements = [_MIN_VERSION, module_document.get("Go", _MIN_VERSION)], [module], []
    if user_file is not None:
        work_document = await _json(go, ["work", "edit", "-json", work_file], workdir, environ, request)
        versions.append(work_document.get("Go", _MIN_VERSION))
        modules += [user_file.parent / use["DiskPath"] for use in work_document.get("Use") or []]
        replacements = [_replacement(item, user_file.parent) for item in work_document.get("Replace") or []]
    modules = [path for path in map(Path, dict.fromkeys(map(os.path.normpath, modules))) if path != LIBRARY]
    newest = max(versions, key=lambda version: tuple(map(int, re.findall(r"\d+", version))))
    uses = [f"use {json.dumps(str(path), ensure_ascii=False)}" for path in (*modules, LIBRARY)]
    text = "\n".join([_MARK, "", f"go {newest}", "", *uses, *replacements, ""])
    name = sha256(str(workdir).encode(errors="surrogateescape")).hexdigest()[:32]
    file = request.cache / "go" / name / "go.work"
    write(file, text)
    folder = (user_file.parent if user_file is not None else module) / "vendor"
    vendor = folder if (folder / _VENDOR_LIST).is_file() else None  # Otherwise, Go would not use it.
    if user_file is None:
        _write_user_file(module / "go.work", text if vendor is None else None)
    return Workspace(
        file,
        module,
        modules=tuple(modules),
        user_file=user_file,
        vendor=vendor,
        root=Path(settings["GOROOT"]),
        downloads=Path(settings["GOMODCACHE"]),
    )


def write_vendor(vendor: Path | None, folder: Path) -> None:
    """Link a user's vendor folder beside the go.work in `folder`, or remove the link. Raises `OSError`.

    In a workspace Go ignores a module's vendor folder and expects one beside go.work.
    """
    link = folder / "vendor"
    if link.is_dir():
        shutil.rmtree(link)
    if vendor is None:
        return
    link.mkdir()
    for entry in vendor.iterdir():
        if entry.name != _VENDOR_LIST:
            (link / entry.name).symlink_to(entry)
    text = (vendor / _VENDOR_LIST).read_text(encoding="utf-8")
    (link / _VENDOR_LIST).write_text(_VENDOR_MARK + text.removeprefix(_VENDOR_MARK), encoding="utf-8")


def _replacement(item: dict[str, dict[str, str]], around: Path) -> str:
    old, new = item["Old"], item["New"]
    target = new["Path"]
    if not new.get("Version"):
        target = json.dumps(os.path.normpath(around / target))
    return f"replace {old['Path']} {old.get('Version', '')} => {target} {new.get('Version', '')}".rstrip()


def _is_written_by_svc(file: Path) -> bool:
    try:
        return file.read_text(encoding="utf-8", errors="replace").startswith(_MARK)
    except OSError:
        return False


def _write_user_file(file: Path, text: str | None) -> None:
    """Write the go.work for the user's own commands, or remove it if a vendor folder is used instead.

    Errors are ignored: builds use the other file.
    """
    with suppress(OSError):
        if text is not None:
            write(file, text)
        elif _is_written_by_svc(file):
            file.unlink()


async def _json(
    go: Go, arguments: Sequence[str], folder: Path, environ: dict[str, str], request: BuildRequest
) -> dict:  # type: ignore[type-arg]
    code, output = await run([go.program, *arguments], folder, environ=environ)
    try:
        if code == 0:
            answer: dict[str, object] = json.loads(output)
            return answer
    except ValueError:
        pass
    raise BuildFailed(
        f"resource {request.resource.name}: `go {' '.join(arguments)}` failed: {output.strip()}",
        f"Run it by hand in {folder} to see more.",
        output=output,
    )
