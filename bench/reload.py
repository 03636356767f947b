"""The time from a save to the first changed response, while 100 requests a second run.

20 saves in each lane of `sample-apps/polyglot`. A save replaces the file, as editors do; from then on one
keep-alive connection sends requests until the response has changed. The compilers' share is measured after
such saves too, after the server has stopped: first the lane's compiler, then the one to machine code.

Then a js resource with a large bundle is saved, and the processor time of its requests is measured one and
five seconds later.
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
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from bench.memory import memory_of
from bench.processes import ROOT, load, loaded, svc_dev, svc_dev_process, write_results
from engine.artifact import ComponentArtifact
from engine.lane import BuildRequest, Lane, ignore_progress
from engine.manifest.load import load as load_manifest
from engine.wasm.compile.code_cache import compile_component, remove_code
from lanes.go.lane import GoLane
from lanes.js.lane import JsLane
from lanes.rust.lane import RustLane
from svc_tui.user_home import Home

SAVES = 20
ALONE = 5
RATE = 100
PAUSE = 0.35
GIVE_UP = 30.0
FOR_EVER = 3600.0
LARGE_SAVES, LARGE_PARTS = 5, 1100
REQUESTS = 5
AFTER = (1.0, 5.0)
"""Seconds after a save at which requests of a large bundle are measured."""
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


def write_large(project: Path) -> Path:
    """Write a project whose js resource has a bundle of 850 KB, and return its entry."""
    part = """export class Shape{0} {{
  static kinds = new Map([["a{0}", {0}], ["b{0}", {0} + 1]]);
  constructor(width = {0}, height = {0}) {{ this.width = width; this.height = height; }}
  area() {{ return this.width * this.height; }}
  scale(by) {{ return new Shape{0}(this.width * by, this.height * by); }}
}}
export const table{0} = {{ name: "table {0}", columns: ["id", "title"], parse: /^item-{0}-(\\d+)$/ }};
export function convert{0}(value) {{
  if (value === undefined) throw new TypeError("no value {0}");
  const parsed = Number(value);
  return Number.isNaN(parsed) ? {{ error: "not a number {0}", value }} : {{ value: parsed * {0} }};
}}
all.push([{0}, Shape{0}, table{0}, convert{0}]);
"""
    (project / "parts.js").write_text(
        "export const all = [];\n" + "".join(part.format(number) for number in range(LARGE_PARTS))
    )
    (project / "svc.toml").write_text(
        '[project]\nname = "large"\n[resource.api]\nlane = "js"\npublic = true\n'
    )
    return project / "index.js"


async def prepare_snapshots(project: Path) -> None:
    """Make a snapshot, so that what the first one on a machine needs exists."""
    cache, lane = Home.from_environment(os.environ).cache(), JsLane()
    request = BuildRequest(load_manifest(project).resources["api"], project, cache, "dev")
    try:
        artifact = await lane.build(replace(request, loader=await lane.build(request)))
    finally:
        await lane.aclose()
    await compile_component(artifact.component, artifact.digest, cache, fast=False, report=ignore_progress)
    artifact.component.unlink()
    remove_code(cache, artifact.digest)


def large_bundle_ms() -> list[float]:
    """Return the processor time of a request to a large bundle, for each of `AFTER`: medians."""
    found: dict[float, list[float]] = {seconds: [] for seconds in AFTER}
    with tempfile.TemporaryDirectory(prefix="svc bench ü ") as folder:
        entry = write_large(Path(folder))
        handler = "fetch: () => new Response(`{} ${{all.length}}`)"
        source = f"import {{{{ all }}}} from './parts.js';\nexport default {{{{ {handler} }}}};\n"
        entry.write_text(source.format(0))
        asyncio.run(prepare_snapshots(entry.parent))
        with svc_dev_process(entry.parent) as (port, pid):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=GIVE_UP)
            for number in range(LARGE_SAVES):
                began = time.perf_counter()
                entry.write_text(source.format(f"{RUN}-{number}"))
                for seconds in AFTER:
                    time.sleep(max(0.0, began + seconds - time.perf_counter()))
                    spent = memory_of(pid).cpu_seconds
                    for _ in range(REQUESTS):
                        connection.request("GET", "/")
                        connection.getresponse().read()
                    found[seconds].append((memory_of(pid).cpu_seconds - spent) * 1000 / REQUESTS)
    return [median(values) for values in found.values()]


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
    large = large_bundle_ms()
    costs = " ".join(f"{after:g}s={cost:.0f}" for after, cost in zip(AFTER, large, strict=True))
    found = {lane: p95(values) for lane, values in times.items()}
    reload_times = {f"{lane}_p95_ms": value for lane, value in found.items()}
    build_times = {f"{lane}_alone_ms": value for lane, value in alone.items()}
    write_results("reload", {**reload_times, **build_times, "large_bundle_cpu_ms": large, "failed": failed})
    print(f"cpu ms of a request to a large js bundle, after a save: {costs}")
    print("reload p95", *(f"{lane}={value:.0f}" for lane, value in found.items()), f"failed={failed}")


if __name__ == "__main__":
    main()
