"""Soak test: hours of ordinary and hostile use of a service and of `svc dev`; nothing is lost, nothing grows.

Clients of all kinds (`soak_clients.py`) use a service while versions are deployed, rolled back and refused.
Meanwhile `svc dev` builds a source file that is saved every few seconds. In the first quarter of the time,
the service is killed repeatedly. Then memory, open files, threads and disk space of both are compared between
two moments without connections: after a warm-up of a quarter, and at the end.
`python -m bench.soak SECONDS [SEED]`
"""

import asyncio
import os
import random
import resource
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.request import Request, urlopen

from bench.memory import Held, memory_of
from bench.processes import svc_dev_process, write_results
from bench.service import Serving, bundle, deploy
from bench.soak_clients import MANIFEST, SCHEMA, SOURCE, Clients
from engine.errors import SvcError
from svc_tui.client import ApiError
from svc_tui.deploy.uploader import Bundle
from svc_tui.user_home import Home

SECONDS = 600.0
KILLS, WARM_UP = 0.25, 0.25
"""Shares of the time."""
CLIENTS = 24
VERSIONS = 3
DEPLOY_SECONDS, SAVE_SECONDS, KILL_SECONDS = 4.0, 3.0, 10.0
REST_SECONDS = 5.0
SAVE_TIMEOUT_SECONDS = 60.0
REPORT_SECONDS = 30.0
MIB = 1 << 20
SLACK = 8 * MIB
GROWTH = 0.05
POOLED = 12
"""Threads, and files of theirs, that pools start when all others are busy, which may be after the warm-up."""
UNCOUNTED = ("timeline.db", "usage.db")
"""Files that grow to a limit of their own, which takes days."""
DEV_MANIFEST = '[project]\nname = "saved"\n\n[resource.web]\nlane = "js"\npublic = true\n'
DEV_SOURCE = "export default {{ fetch() {{ return new Response('save {}\\n'); }} }};\n"
DEV_MISTAKE = "export default {{ fetch() {{ return save {}; }} }};\n"


@dataclass(frozen=True)
class Usage:
    """Resources of a process, and the bytes that its folders occupy on the disk."""

    memory: Held
    disk: int

    @classmethod
    def of(cls, pid: int, *folders: Path) -> "Usage":
        return cls(memory_of(pid), sum(map(disk_usage, folders)))

    def __str__(self) -> str:
        return (
            f"rss={self.memory.rss / MIB:.0f} fds={self.memory.files} threads={self.memory.threads}"
            f" disk={self.disk / MIB:.0f}"
        )

    def grew(self, since: "Usage") -> list[str]:
        """Return the names of resources that grew."""
        values = {
            "rss": (since.memory.rss * (1 + GROWTH) + SLACK, self.memory.rss),
            "fds": (since.memory.files + POOLED, self.memory.files),
            "threads": (since.memory.threads + POOLED, self.memory.threads),
            "disk": (since.disk * (1 + GROWTH) + SLACK, self.disk),
        }
        return [name for name, (limit, value) in values.items() if value > limit]


def disk_usage(folder: Path) -> int:
    """Return the bytes that the files of a folder occupy."""
    total = 0
    for path, _, files in os.walk(folder):
        for name in files:
            if not name.startswith(UNCOUNTED) and not name.endswith(("-wal", "-shm")):
                try:
                    total += os.lstat(f"{path}/{name}").st_blocks * 512
                except FileNotFoundError:
                    continue
    return total


class Deploys:
    """Deploys, rollbacks and rejected deploys of one project, in turn with a check of what is live."""

    def __init__(self, serving: Serving, clients: Clients, bundles: list[Bundle], faulty: Bundle) -> None:
        self._serving = serving
        self._clients = clients
        self._bundles = bundles
        self._faulty = faulty
        self._ids: dict[int, str] = {}
        self._live = {0}
        """Versions of which one is live: several after a kill, until one is read."""

    def first(self) -> None:
        """Deploy the first version."""
        self._deploy(0)
        self._live = {1}

    def _deploy(self, index: int) -> None:
        with self._serving.client() as client:
            result = deploy(client, self._bundles[index])
        self._ids[index] = result["deployment"]["id"]

    def _roll_back(self, index: int) -> None:
        with self._serving.client() as client:
            plan = client.call("GET", f"/v1/projects/soak/deployments/{self._ids[index]}/rollback")
            body = {"deployment": self._ids[index], "revision": plan["revision"], "message": "soak"}
            client.call("POST", "/v1/projects/soak/rollback", body)

    def _reject(self, index: int) -> None:
        """Deploy a version whose check fails. Raises SvcError, or AssertionError if it becomes live."""
        with self._serving.client() as client:
            deploy(client, self._faulty)
        raise AssertionError("a deploy whose check fails became live")

    async def change(self) -> str:
        """Change what is live, or try to; return the outcome."""
        index = random.randrange(VERSIONS)
        kinds = [self._deploy, self._deploy, self._reject, self._race]
        if index in self._ids:
            kinds += [self._roll_back] * 2
        step, kills = random.choice(kinds), self._clients.kills
        kind = step.__name__.strip("_").replace("_", "-")
        acceptable = set(self._live) if step == self._reject else {index + 1}
        try:
            await asyncio.to_thread(step, index)
            outcome = kind
        except (SvcError, OSError) as error:
            outcome = kind
            if step != self._reject or getattr(error, "code", "") != "check-failed":
                acceptable |= {*self._live, index + 1}
                outcome = f"wrong-{kind} {error!r}"
        if step == self._race:
            acceptable.add((index + 1) % VERSIONS + 1)
        killed = kills != self._clients.kills or kills % 2 == 1
        if killed:
            outcome = "killed-deploy"
            acceptable |= {*self._live, index + 1}
            await asyncio.sleep(1)
        try:
            version = await self._clients.version()
        except (OSError, EOFError, TimeoutError, ValueError) as error:
            if killed or self._clients.kills != kills:
                self._live = acceptable | self._live
                return "killed-deploy"
            return f"wrong-version after {kind}: {error}"
        self._live, before = {version}, self._live
        if version not in acceptable:
            return f"wrong-live after {kind} of {index + 1}: one of {sorted(before)} -> {version}"
        return outcome

    def _race(self, index: int) -> None:
        """Deploy two versions at once from one revision. Raises AssertionError unless one becomes live."""
        others = (index, (index + 1) % VERSIONS)

        async def both() -> list[object]:
            jobs = [asyncio.to_thread(self._deploy, other) for other in others]
            return await asyncio.gather(*jobs, return_exceptions=True)

        results = asyncio.run(both())
        errors = [result for result in results if isinstance(result, BaseException)]
        for error in errors:
            if not isinstance(error, ApiError) or error.code != "conflict":
                raise error
        if len(errors) == 2:
            raise AssertionError("of two deploys none became live")


@dataclass
class Saves:
    """Saves of a source file, each awaited until `svc dev` serves it. Every tenth has a syntax error."""

    project: Path
    port: int
    count: int = 0

    async def save(self) -> str:
        """Save a new version and wait until it is served; return the outcome.

        A syntax error is followed by a correct version, and the version before is served meanwhile.
        """
        self.count += 1
        mistake = self.count % 10 == 0
        if mistake:
            (self.project / "index.js").write_text(DEV_MISTAKE.format(self.count))
            await asyncio.sleep(0.5)
            if (text := await asyncio.to_thread(self._get)) != f"save {self.count - 1}\n":
                return f"wrong-mistake {self.count}: {text[:200]!r}"
        (self.project / "index.js").write_text(DEV_SOURCE.format(self.count))
        deadline = time.monotonic() + SAVE_TIMEOUT_SECONDS
        while (text := await asyncio.to_thread(self._get)) != f"save {self.count}\n":
            if time.monotonic() > deadline:
                return f"wrong-save {self.count}: {text[:200]!r}"
            await asyncio.sleep(0.1)
        return "mistake" if mistake else "save"

    def _get(self) -> str:
        request = Request(f"http://127.0.0.1:{self.port}/", headers={"host": "web--saved.localhost"})
        try:
            with urlopen(request, timeout=60) as answer:
                return str(answer.read().decode())
        except OSError as error:
            return error.read().decode() if hasattr(error, "read") else str(error)


class Soak:
    """Everything that runs at once."""

    def __init__(self, serving: Serving, deploys: Deploys, clients: Clients, saves: Saves, dev: int) -> None:
        self.serving, self.deploys, self.clients, self.saves = serving, deploys, clients, saves
        self.dev = dev
        self.outcomes: Counter[str] = Counter()

    async def phase(self, name: str, seconds: float, *, kill: bool = False) -> tuple[Usage, Usage]:
        """Run everything for some seconds; return the resources of both servers at rest after it."""
        until = time.monotonic() + seconds
        jobs = [self.clients.run(until) for _ in range(CLIENTS)]
        jobs += [self._deploy(until), self._save(until)]
        if kill:
            jobs.append(self._kill(until))
        running = asyncio.gather(*jobs)
        while not running.done():
            await asyncio.wait([running], timeout=REPORT_SECONDS)
            self._report(name)
        await running
        await asyncio.sleep(REST_SECONDS)
        self.outcomes["wrong-rows"] += await self.clients.count_wrong_rows()
        self._report(f"{name} ended")
        return self._usage()

    def _usage(self) -> tuple[Usage, Usage]:
        process = self.serving.process
        assert process is not None
        home = Home.from_environment(os.environ).root
        return (
            Usage.of(process.pid, self.serving.data),
            Usage.of(self.dev, self.saves.project, home),
        )

    def _report(self, name: str) -> None:
        try:
            service, dev = self._usage()
        except (FileNotFoundError, ProcessLookupError):  # between a kill and the next start
            return
        wrong = sum(count for kind, count in self.counts().items() if kind.startswith("wrong"))
        requests = sum(self.clients.seen.values())
        print(f"{name}: requests={requests} wrong={wrong} service: {service} dev: {dev}", flush=True)

    def counts(self) -> Counter[str]:
        """Return how often each outcome was met."""
        return self.clients.seen + self.outcomes

    def _note(self, outcome: str) -> None:
        if outcome.startswith("wrong"):
            print(time.strftime("%X"), outcome, flush=True)
        self.outcomes[outcome.partition(" ")[0]] += 1

    async def _deploy(self, until: float) -> None:
        while time.monotonic() < until:
            self._note(await self.deploys.change())
            await asyncio.sleep(DEPLOY_SECONDS * random.random())

    async def _save(self, until: float) -> None:
        while time.monotonic() < until:
            self._note(await self.saves.save())
            await asyncio.sleep(SAVE_SECONDS * random.random())

    async def _kill(self, until: float) -> None:
        while time.monotonic() < until - KILL_SECONDS:
            await asyncio.sleep(KILL_SECONDS * random.uniform(0.2, 1.8))
            self.clients.kills += 1
            await asyncio.to_thread(self.serving.kill)
            await asyncio.to_thread(self.serving.start)
            self.clients.kills += 1
            self.outcomes["kill"] += 1


def write_project(folder: Path, version: int, *, check: str = "") -> Path:
    """Write a version of the project. `check` is the path of its health check, if it has one."""
    root = folder / "soak"
    for name, text in {
        "svc.toml": MANIFEST.format(version=version, check=f'check = "{check}"' if check else ""),
        "site/index.html": f"front {version}",
        "api/src/index.js": f"// version {version}\n{SOURCE}",
        "tables/001-counts.sql": SCHEMA,
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@contextmanager
def own_home(folder: Path) -> Iterator[None]:
    """Set `SVC_HOME` to a new folder that shares the installed toolchains."""
    toolchains = Home.from_environment(os.environ).cache() / "toolchains"
    toolchains.mkdir(exist_ok=True)
    (folder / "cache").mkdir(parents=True)
    (folder / "cache" / "toolchains").symlink_to(toolchains)
    before = os.environ.get("SVC_HOME")
    os.environ["SVC_HOME"] = str(folder)
    try:
        yield
    finally:
        os.environ.pop("SVC_HOME")
        if before is not None:
            os.environ["SVC_HOME"] = before


def preserve(log: Path) -> str:
    """Copy a log to a temporary file that remains; return the path of the copy."""
    with (
        log.open("rb") as source,
        tempfile.NamedTemporaryFile(prefix="svc-soak-", suffix=".log", delete=False) as copy,
    ):
        shutil.copyfileobj(source, copy)
    return copy.name


def soak(folder: Path, seconds: float) -> tuple[Counter[str], dict[str, tuple[Usage, Usage]]]:
    """Run the test in a folder. Return all outcomes, and the resources of both servers at the two moments."""
    faulty = bundle(write_project(folder, VERSIONS + 1, check="/missing"))
    bundles = [bundle(write_project(folder, version)) for version in range(1, VERSIONS + 1)]
    saved = folder / "saved"
    saved.mkdir()
    (saved / "svc.toml").write_text(DEV_MANIFEST)
    (saved / "index.js").write_text(DEV_SOURCE.format(0))
    serving = Serving(folder / "data ü")
    serving.start()
    try:
        clients = Clients(serving)
        deploys = Deploys(serving, clients, bundles, faulty)
        deploys.first()
        with svc_dev_process(saved) as (port, pid):
            running = Soak(serving, deploys, clients, Saves(saved, port), pid)
            asyncio.run(running.phase("kills", seconds * KILLS, kill=True))
            first = asyncio.run(running.phase("warm-up", seconds * WARM_UP))
            last = asyncio.run(running.phase("measured", seconds * (1 - KILLS - WARM_UP)))
    finally:
        serving.stop()
    text = serving.log.read_text()
    running.outcomes["wrong-traceback"] += text.count("Traceback")
    if any(kind.startswith("wrong") for kind in +running.counts()):
        print(f"log of the service: {preserve(serving.log)}", flush=True)
    names = ("service", "dev")
    return +running.counts(), dict(zip(names, zip(first, last, strict=True), strict=True))


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(1 << 32)
    random.seed(seed)
    print(f"soak of {seconds:.0f} s, seed {seed}", flush=True)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with (
        tempfile.TemporaryDirectory(prefix="svc-soak-", ignore_cleanup_errors=True) as folder,
        own_home(Path(folder) / "home"),
    ):
        seen, usage = soak(Path(folder), seconds)
    print(*(f"{kind}={count}" for kind, count in sorted(seen.items())))
    wrong = sum(count for kind, count in seen.items() if kind.startswith("wrong"))
    grew = [f"{name}-{what}" for name, (first, last) in usage.items() for what in last.grew(first)]
    write_results(
        "soak",
        {
            "outcomes": dict(seen),
            "grew": grew,
            "rss": {name: [first.memory.rss, last.memory.rss] for name, (first, last) in usage.items()},
            "processors": os.cpu_count(),
        },
    )
    text = (f"{name}: {first} -> {last}" for name, (first, last) in usage.items())
    print("soak", f"seconds={seconds:.0f}", f"wrong={wrong}", f"grew={','.join(grew) or 'nothing'}", *text)
    if wrong or grew:
        sys.exit(1)


if __name__ == "__main__":
    main()
