"""The static lane: a folder served as it is, or a bundle of the output of a build command."""

import asyncio
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from engine.artifact import FolderArtifact, StaticBundle
from engine.files.temporary import temporary_folder
from engine.lane import BuildFailed, BuildRequest, Tool
from engine.static_files.bundle import blob_path, read_index
from engine.static_files.rules import RULE_FILES, StaticRules
from lanes.build_program import BuildProgram
from lanes.identity import identity
from lanes.process import check_output, exclusive, run_build
from lanes.static import SPEC
from lanes.static.pack import Packing, pack, walk

_QUALITY = {"dev": (5, 6), "deploy": (11, 9)}


class StaticLane:
    """Builds static resources."""

    spec = SPEC

    def __init__(self) -> None:
        self._workers = ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="static-pack")
        self._noted: set[str] = set()
        self._programs: dict[Path, BuildProgram] = {}

    async def build(self, request: BuildRequest) -> FolderArtifact | StaticBundle:
        """Build the resource: a live folder in dev without `build`, else a static bundle, with `files` empty.

        Raises `BuildFailed`.
        """
        resource = request.resource
        if resource.files:
            packing = Packing(request.cache, 1, 1, self._workers, request.report, verify=True)
            with temporary_folder("no-files-") as empty:
                return await pack(empty, packing)
        if not resource.workdir.is_dir():
            raise BuildFailed(
                f"resource {resource.name}: {request.display_path(resource.workdir)} does not exist",
                f"Create it, or correct `workdir` of [resource.{resource.name}] in svc.toml.",
            )
        if resource.output is None:
            raise BuildFailed(
                f"resource {resource.name}: no output folder is set",
                f'Add `output = "public"` (the folder) to [resource.{resource.name}] in svc.toml.',
            )
        if resource.build is None:
            return await self._serve_or_pack(resource.output, request)
        async with exclusive(request):
            if program := self._programs.get(resource.workdir):
                await program.build(request)
                check_output(request)
            else:
                await run_build(request)
                if request.mode == "dev" and resource.builder:
                    self._programs[resource.workdir] = BuildProgram()
            return await self._serve_or_pack(resource.output, request)

    async def _serve_or_pack(self, output: Path, request: BuildRequest) -> FolderArtifact | StaticBundle:
        """Return the output folder, live or packed, with valid rules.

        Of a live one, report files that are left out, once each.
        """
        _check_output(output, request)
        if request.resource.build is None and request.mode == "dev":
            with suppress(OSError):
                files, notes = await asyncio.to_thread(walk, output)
                for note in (note for note in notes if note not in self._noted):
                    request.report(note)
                self._noted.update(notes)
                return FolderArtifact(output, tuple(_check_rules(files, request).items()))
            return FolderArtifact(output)
        brotli, gzip = _QUALITY[request.mode]
        sources = request.root if request.resource.build is not None else None
        verify, report = request.mode == "deploy", request.report
        packing = Packing(request.cache, brotli, gzip, self._workers, report, verify=verify, sources=sources)
        bundle = await pack(output, packing)
        await asyncio.to_thread(_check_bundle, bundle, request)
        return bundle

    async def tools(self, cache: Path) -> tuple[Tool, ...]:
        """Return nothing: files are served as they are, and a build command brings its own tools."""
        return ()

    async def install(self, cache: Path, report: Callable[[str], None]) -> None:
        """Install nothing."""

    def identity(self, cache: Path) -> str:
        """Return the fingerprint of bundles: the lane's code alone."""
        return identity([])

    async def aclose(self) -> None:
        """Stop the compression threads and the build programs; pending work is dropped."""
        for program in self._programs.values():
            await program.aclose()
        self._workers.shutdown(wait=False, cancel_futures=True)


def _check_bundle(bundle: StaticBundle, request: BuildRequest) -> None:
    blobs = {file.path: file.encodings["identity"][0] for file in read_index(bundle)}
    _check_rules({name: blob_path(bundle.folder, blob) for name, blob in blobs.items()}, request)


def _check_rules(files: Mapping[str, Path], request: BuildRequest) -> dict[str, bytes]:
    """Return the contents of the files with rules among `files`. Raises `BuildFailed` for an invalid rule."""
    contents = {name: files[name].read_bytes() for name in RULE_FILES if name in files}
    resource = request.resource
    for note in StaticRules(resource, contents).notes:
        request.report(note)
    if resource.not_found and resource.not_found not in files:
        raise BuildFailed(
            f"resource {resource.name}: the output has no file {resource.not_found}",
            f"Create it, or correct `not_found` of [resource.{resource.name}] in svc.toml.",
        )
    return contents


def _check_output(output: Path, request: BuildRequest) -> None:
    if output.is_dir():
        return
    resource = request.resource
    path = request.display_path(output)
    if output.exists():
        wrong, remedy = f"{path} is a file, not a folder", "Name a folder"
    elif resource.build is not None:
        wrong, remedy = f"the build command wrote no folder {path}", "Check where the command writes to"
    else:
        wrong, remedy = f"the folder {path} does not exist", "Create it"
    raise BuildFailed(
        f"resource {resource.name}: {wrong}",
        f"{remedy}, or correct `output` of [resource.{resource.name}] in svc.toml.",
    )
