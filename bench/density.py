"""Many projects on one service: memory, disk, descriptors, threads, start, cold requests and deploys.

Each has a static front, a js API and a table. Projects of some numbers of routes (`ROUTES`) are built, and
deployed in turn under N names by the control API. Up to `DISTINCT` components of each differ in the digits of
a text. So a deploy compiles, as that of a new application, until all components are known.
Half of the projects are requested after a restart, one after another.
"""

import argparse
import http.client
import mmap
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from statistics import quantiles
from typing import Any

from bench.processes import write_results
from bench.service import DOMAIN, Serving, bundle, deploy, silent
from engine.artifact import ComponentArtifact
from engine.bucket.protocols import Digest
from engine.deploy.package_store import COMPONENT, pack_compressed
from engine.files.compressed import decompress
from engine.wasm.compile.compilers import MAX_COMPONENT_BYTES
from svc_tui.deploy import uploader

ROUTES = (1, 5, 15, 40)
DISTINCT = 50
DEPLOYS_AT_ONCE = 2
WARM_REQUESTS = 500
IDLE_SECONDS = 20.0
CHANGES = 3
MARK = "number 000000"
PAGES = 20_000
_SLEEPER = """
import time
while True:
    time.sleep(1)
    sum(range(2000))
"""
_MANIFEST = """[project]
name = "{name}"

[resource.front]
lane = "static"
public = true
output = "front"
mounts = {{ "/api/*" = "api" }}

[resource.api]
lane = "js"
workdir = "api"
"""
_API = """
import {{ json, tables }} from '@svc/guest';
{handlers}
const handlers = new Map([{routes}]);

export default {{
  async fetch(request) {{
    const {{ pathname, searchParams }} = new URL(request.url);
    const handler = handlers.get(pathname);
    if (handler) return handler(Object.fromEntries(searchParams));
    const [{{ visits }}] = await tables.query`select count(*) as visits from visits`;
    return json({{ mark: 'number 000000', visits }});
  }},
}};
"""
_HANDLER = """
async function handle{number}({{ kind = 'kind {number}' }}) {{
  if (!/^[a-z ]+[0-9]{{1,{number}}}$/.test(kind)) return json({{ error: `no ${{kind}}` }}, {{ status: 400 }});
  const rows = await tables.query`select id, at from visits where id > ${{kind.length}} limit {number}`;
  return json({{ kind, rows: rows.map(({{ id, at }}) => ({{ id, at: `${{at}}`, of: {number} }})) }});
}}
"""
_TABLE = "create table visits (id integer primary key, at timestamp not null);\n"


def api(routes: int) -> str:
    """Return the source of an API with a number of routes."""
    numbers = range(1, routes)
    return _API.format(
        handlers="".join(_HANDLER.format(number=number) for number in numbers),
        routes=", ".join(f"['/of/{number}', handle{number}]" for number in numbers),
    )


def write(root: Path) -> None:
    """Write the project that is deployed."""
    for name in ("front", "api/src", "tables"):
        (root / name).mkdir(parents=True)
    (root / "svc.toml").write_text(_MANIFEST.format(name="density"))
    (root / "front" / "index.html").write_text("<!doctype html><title>front</title><p>front\n")
    (root / "tables" / "001-visits.sql").write_text(_TABLE)


def name_of(number: int) -> str:
    """Return the name of a project."""
    return f"p{number:06}"


def build(root: Path) -> list[uploader.Bundle]:
    """Build the project with each number of routes."""
    built = []
    for routes in ROUTES:
        (root / "api" / "src" / "index.js").write_text(api(routes))
        built.append(bundle(root))
    return built


def mark(number: int) -> str:
    """Return the text in the component of a project."""
    return f"number {number // len(ROUTES) % DISTINCT:06}"


def named(built: uploader.Bundle, number: int, folder: Path) -> uploader.Bundle:
    """Return the bundle of a project of another name, with one of `DISTINCT` components."""
    renamed = replace(built, project=name_of(number), manifest=_MANIFEST.format(name=name_of(number)))
    part = built.packed["api"]
    delta, template = (part.contents[blob.digest] for blob in part.package.files[COMPONENT].stored)
    assert isinstance(delta, bytes) and isinstance(template, bytes)
    binary = decompress(delta, decompress(template, limit=MAX_COMPONENT_BYTES), limit=MAX_COMPONENT_BYTES)
    changed = binary.replace(MARK.encode(), mark(number).encode())
    assert mark(number) == MARK or changed != binary
    component, frame = folder / f"{name_of(number)}.wasm", folder / f"{name_of(number)}.template"
    component.write_bytes(changed)
    frame.write_bytes(template)
    packed = pack_compressed(ComponentArtifact(component, sha256(changed).hexdigest(), template=frame))
    component.unlink()
    frame.unlink()
    document = packed.package.encode()
    return replace(
        renamed,
        packed={**built.packed, "api": packed},
        packages={**built.packages, "api": (Digest(sha256(document).hexdigest()), document)},
    )


def processes(pid: int) -> list[int]:
    """Return a process and its descendants."""
    found = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False
    ).stdout
    return [pid, *(each for child in found.split() for each in processes(int(child)))]


def held(pid: int) -> dict[str, int]:
    """Return the proportional memory, the descriptors and the threads of a service."""
    sums = {"pss_mib": 0, "fds": 0, "threads": 0}
    for each in processes(pid):
        folder = Path(f"/proc/{each}")
        smaps = re.search(r"^Pss: +(\d+) kB", (folder / "smaps_rollup").read_text(), re.MULTILINE)
        assert smaps is not None
        sums["pss_mib"] += int(smaps[1])
        sums["fds"] += len([*(folder / "fd").iterdir()])
        sums["threads"] += len([*(folder / "task").iterdir()])
    return {**sums, "pss_mib": sums["pss_mib"] >> 10}


def cpu_seconds(pid: int) -> float:
    """Return the processor time of a service."""
    times = [Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split() for each in processes(pid)]
    return sum(int(fields[11]) + int(fields[12]) for fields in times) / os.sysconf("SC_CLK_TCK")


def disk_mib(folder: Path) -> int:
    """Return the blocks of all files; a file with several names counts once."""
    found = subprocess.run(["du", "-sm", str(folder)], capture_output=True, text=True, check=True).stdout
    return int(found.split()[0])


def ask(port: int, number: int) -> float:
    """Request the API of a project; return the milliseconds until the whole response."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.connect()
    began = time.perf_counter()
    connection.request("GET", "/api/", headers={"host": f"{name_of(number)}.{DOMAIN}"})
    response = connection.getresponse()
    body = response.read()
    took = (time.perf_counter() - began) * 1000
    connection.close()
    assert response.status == 200, f"{name_of(number)}: {response.status} {body!r}"
    assert mark(number).encode() in body, body
    return took


def p99(times: list[float]) -> float:
    """Return the 99th percentile."""
    return quantiles(times, n=100, method="inclusive")[98]


def deploy_all(serving: Serving, built: list[uploader.Bundle], folder: Path, projects: int) -> None:
    """Deploy the projects under all names."""

    def deploy_one(number: int) -> None:
        each = named(built[number % len(built)], number, folder)
        with serving.client() as client:
            deploy(client, each)
        if number % 50 == 0:
            print(f"deployed {number}", flush=True)

    with ThreadPoolExecutor(DEPLOYS_AT_ONCE) as threads:
        list(threads.map(deploy_one, range(projects)))


def change_and_deploy(serving: Serving, root: Path) -> tuple[float, float]:
    """Change the js of the first project and deploy it; return the milliseconds and the KiB sent."""
    times, sent = [], 0
    (root / "svc.toml").write_text(_MANIFEST.format(name=name_of(0)))
    with serving.client() as client:
        deploy(client, bundle(root))
        for number in range(CHANGES):
            (root / "api" / "src" / "index.js").write_text(f"// {number}\n{api(1)}console.log({number});\n")
            began = time.perf_counter()
            built = bundle(root)
            planned = uploader.plan(client, built)
            sent = uploader.upload(client, built, planned["missing"], silent)
            uploader.deploy(client, built, planned["revision"], silent, commit="", message="", allow=False)
            times.append((time.perf_counter() - began) * 1000)
    return min(times), sent / 1024


def machine(seconds: float) -> str:
    """Return what the machine itself takes for an idle process and for a new page of memory."""
    with subprocess.Popen([sys.executable, "-c", _SLEEPER]) as sleeper:
        time.sleep(1)
        before = cpu_seconds(sleeper.pid)
        time.sleep(seconds)
        idle = (cpu_seconds(sleeper.pid) - before) / seconds
        sleeper.kill()
    size = mmap.PAGESIZE
    with mmap.mmap(-1, PAGES * size) as memory:
        began = time.perf_counter()
        for page in range(PAGES):
            memory[page * size] = 1
        microseconds = (time.perf_counter() - began) * 1e6 / PAGES
    return f"a process that wakes once a second takes {idle:.3f} of a core, a new page {microseconds:.1f} µs"


def measure(folder: Path, projects: int) -> dict[str, Any]:
    """Return all figures of a number of projects."""
    root = folder / "project"
    write(root)
    built = build(root)
    serving = Serving(folder / "data", "--grace", "5")
    serving.start()
    figures: dict[str, Any] = {"projects": projects}
    print(machine(IDLE_SECONDS / 2), flush=True)
    try:
        deploy_all(serving, built, folder, projects)
        serving.stop()
        began = time.perf_counter()
        serving.start()
        start_ms = (time.perf_counter() - began) * 1000
        assert serving.process is not None
        pid = serving.process.pid
        print(f"started in {cpu_seconds(pid):.2f} s of processor time:", held(pid), flush=True)
        before = cpu_seconds(pid)
        cold = [ask(serving.port, number) for number in range(projects // 2)]
        milliseconds = (cpu_seconds(pid) - before) * 1000 / len(cold)
        print(f"{milliseconds:.1f} ms of processor time a first request", flush=True)
        warm = [ask(serving.port, 0) for _ in range(WARM_REQUESTS)]
        figures |= held(pid)
        before = cpu_seconds(pid)
        time.sleep(IDLE_SECONDS)
        figures["idle_cpu"] = (cpu_seconds(pid) - before) / IDLE_SECONDS
        figures["disk_mib"] = disk_mib(serving.data)
        figures |= {"start_ms": start_ms, "cold_p99_ms": p99(cold), "warm_p99_ms": p99(warm)}
        figures["deploy_ms"], figures["upload_kib"] = change_and_deploy(serving, root)
    finally:
        serving.stop()
    return figures


_DIGITS = {"cold_p99_ms": 1, "warm_p99_ms": 1, "idle_cpu": 3}
_ORDER = (
    "projects", "pss_mib", "disk_mib", "fds", "threads", "start_ms", "cold_p99_ms", "warm_p99_ms", "idle_cpu",
    "deploy_ms", "upload_kib",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("projects", nargs="?", type=int, default=1000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="svc-bench-", ignore_cleanup_errors=True) as folder:
        figures = measure(Path(folder), arguments.projects)
    print("density", *(f"{name}={figures[name]:.{_DIGITS.get(name, 0)}f}" for name in _ORDER))
    write_results("density", figures)


if __name__ == "__main__":
    main()
