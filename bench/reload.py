"""The time from a save to the first changed response, while 100 requests a second run.

20 saves in each lane of `sample-apps/polyglot`. A save replaces the file, as editors do; from then on one
keep-alive connection sends requests until the response has changed. The compilers' share is measured after
such saves too, after the server has stopped: first the lane's compiler, then the one to machine code.
"""

import asyncio
import http.client
import os
import secrets
import shutil
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.processes import ROOT, load, loaded, svc_dev, write_results
from engine.artifact import ComponentArtifact
from engine.lane import BuildRequest, Lane, ignore_progress
from engine.manifest.load import load as load_manifest
from engine.wasm.compile.code_cache import compile_component
from lanes.go.lane import GoLane
from lanes.rust.lane import RustLane
from svc_tui.user_home import Home

SAVES = 20
ALONE = 5
RATE = 100
PAUSE = 0.35
GIVE_UP = 30.0
FOR_EVER = 3600.0
RUN = secrets.token_hex(4)
"""Part of every mark: what an earlier run built must not be known."""
SAMPLE = ROOT / "sample-apps" / "polyglot"


@dataclass(frozen=True, slots=True)
class Edit:
    """A file of the sample, a text in it that a mark takes the place of, and where that shows."""

    file: str
    text: str
    url: str


EDITS = {
    "static": Edit("front/index.html", "One page, one origin", "/"),
    "js": Edit("js/src/index.js", "Hello from JavaScript", "/js/hello"),
    "go": Edit("go/main.go", "Hello from Go", "/go/hello"),
    "rust": Edit("rust/src/lib.rs", "Hello from Rust", "/rust/hello"),
}


def save(project: Path, edit: Edit, mark: str) -> float:
    """Save a file with a mark in it, and return the time at which that began."""
    path = project / edit.file
    arriving = path.with_name(path.name + ".tmp")
    arriving.write_text((SAMPLE / edit.file).read_text().replace(edit.text, mark))
    began = time.perf_counter()
    arriving.replace(path)
    return began


def reload_ms(connection: http.client.HTTPConnection, project: Path, edit: Edit, mark: str) -> float:
    """Save, and return the milliseconds until a response carries the mark."""
    began = save(project, edit, mark)
    while time.perf_counter() - began < GIVE_UP:
        connection.request("GET", edit.url)
        if mark.encode() in connection.getresponse().read():
            return (time.perf_counter() - began) * 1000
    sys.exit(f"{mark} did not show within {GIVE_UP} s")


async def parts_ms(project: Path, name: str, lane: Lane) -> tuple[float, float]:
    """Return what the lane (its compiler) and then machine code take after a save: medians of a few."""
    cache, resource = Home.from_environment(os.environ).cache(), load_manifest(project).resources[name]
    built, machine = [], []
    for number in range(ALONE):
        began = save(project, EDITS[name], f"{name}-{RUN}-alone-{number}-mark")
        artifact = await lane.build(BuildRequest(resource, project, cache, "dev"))
        assert isinstance(artifact, ComponentArtifact)
        compiling = time.perf_counter()
        await compile_component(artifact.component, artifact.digest, cache, fast=True, report=ignore_progress)
        built.append((compiling - began) * 1000)
        machine.append((time.perf_counter() - compiling) * 1000)
    return median(built), median(machine)


def p95(values: list[float]) -> float:
    """Return the 95th percentile (nearest rank)."""
    return sorted(values)[max(0, -(-95 * len(values) // 100) - 1)]


def main() -> None:
    times: dict[str, list[float]] = {lane: [] for lane in EDITS}
    with tempfile.TemporaryDirectory(prefix="svc bench ü ") as folder:
        project = Path(folder) / "polyglot"
        shutil.copytree(SAMPLE, project, ignore=shutil.ignore_patterns("target", "go.work*", ".svc"))
        with svc_dev(project) as port, ExitStack() as stack:
            loads = [
                stack.enter_context(load(port, edit.url, FOR_EVER, 2, RATE / len(EDITS)))
                for edit in EDITS.values()
            ]
            time.sleep(1)
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=GIVE_UP)
            for number in range(SAVES):
                for lane, edit in EDITS.items():
                    times[lane].append(reload_ms(connection, project, edit, f"{lane}-{RUN}-{number}-mark"))
                    time.sleep(PAUSE)
            for process in loads:
                process.terminate()
            failed = sum(loaded(process)["failed"] for process in loads)
        alone = {
            lane.spec.name: asyncio.run(parts_ms(project, lane.spec.name, lane))
            for lane in (GoLane(), RustLane())
        }
    for lane, values in times.items():
        print(f"{lane} ms:", " ".join(f"{value:.0f}" for value in sorted(values)))
    for lane, (built, machine) in alone.items():
        print(f"{lane} alone, ms: {built:.0f} by its compiler, {machine:.0f} to machine code")
    found = {lane: p95(values) for lane, values in times.items()}
    reload_times = {f"{lane}_p95_ms": value for lane, value in found.items()}
    build_times = {f"{lane}_alone_ms": value for lane, value in alone.items()}
    write_results("reload", {**reload_times, **build_times, "failed": failed})
    print("reload p95", *(f"{lane}={value:.0f}" for lane, value in found.items()), f"failed={failed}")


if __name__ == "__main__":
    main()
