"""Runs jobs when they are due: each try is a request through the gateway, to its resource.

The jobs of a project are in its tables. One timer waits for the next due time of all projects, and only the
tables of a project with a job that is due are opened. A try is claimed there before it starts, until it must
have ended. So a job runs at least once, and by one process at a time.
"""

import asyncio
import logging
import math
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus

from engine.cancellation import cancel, spawn
from engine.door import Severity
from engine.errors import SvcError
from engine.gateway.routes import internal_request
from engine.gateway.traced_exchange import request_id
from engine.http.exchange import Handler, MemoryExchange
from engine.http.messages import retry_after
from engine.job_store import Ended, Job, JobStore, StoredJob
from engine.manifest.model import Project
from engine.timeline.bus import TimelineBus
from engine.timeline.record import PlatformRecord, utc
from engine.wasm.execution.background import BackgroundShare

AT_ONCE = 32
"""Maximum tries of a project at once in this process, whose bodies are in memory."""
MARGIN_SECONDS = 60.0
"""A try that does not end within this and the limit of its resource is lost."""
TICK_SECONDS = 60.0
"""How often the clock is read in any case, and in a fleet the jobs of all projects: it can jump, and other
nodes add jobs."""
FLEET_SECONDS = 1.0
"""How often a node looks for another one that is lost, whose jobs it runs."""
BUSY_SECONDS = 0.1
GATHER_SECONDS = 0.02
"""Tries that end within this time are stored together, and the next ones are claimed then."""
RETRY_SECONDS = 5.0
"""Pause after the tables failed."""
BACKOFF_SECONDS, MAX_BACKOFF_SECONDS = 10.0, 3600.0
MAX_RETRY_AFTER_SECONDS = 86400.0
FINAL = frozenset({HTTPStatus.GONE, HTTPStatus.UNPROCESSABLE_ENTITY})
"""Statuses after which a job is not tried again."""
_log = logging.getLogger("svc.server")


class JobRunner:
    """The jobs of all projects of a process. Use on one event loop."""

    def __init__(
        self,
        projects: Callable[[], Mapping[str, Project]],
        store_of: Callable[[str], JobStore | None],
        send: Handler,
        timeline_of: Callable[[str], TimelineBus],
        share: BackgroundShare,
        *,
        node: str = "",
        present: Callable[[], set[str]] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`projects` returns those that are served, `send` is the gateway.

        `node` is this one of a fleet, and `present` returns those that run; nodes have different names.
        """
        self._projects, self._store_of, self._send, self._timeline_of = projects, store_of, send, timeline_of
        self._share, self._node, self._present, self._clock = share, node, present, clock
        self._owner = f"{node}.{secrets.token_hex(6)}"
        self._due: dict[str, float] = {}
        self._known: set[str] = set()
        """Projects whose jobs of earlier processes, and of claims without an answer, are due again."""
        self._failures: dict[str, str] = {}
        """Why the jobs of a project do not run, to report it once."""
        self._served: set[str] = set()
        """Projects whose jobs are still to be looked up."""
        self._active: dict[str, asyncio.Task[None]] = {}
        """The task that claims jobs, by project."""
        self._tries: dict[str, set[asyncio.Task[None]]] = {}
        self._changed = asyncio.Event()
        self._loop: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Run the jobs of all projects from now on."""
        self._served |= self._projects().keys()
        self._loop = asyncio.create_task(self._run())

    async def stop(self, seconds: float) -> None:
        """Begin no more tries, and wait some time for those that run."""
        if self._loop is not None:
            await cancel([self._loop])
        await cancel(self._active.values())
        await self.aclose(seconds)

    async def aclose(self, seconds: float | None = None) -> None:
        """Wait until the ends of all tries, which must be stopped, are stored, or for some time."""
        if tries := set().union(*self._tries.values()):
            await asyncio.wait(tries, timeout=seconds)

    async def remove(self, project: str) -> None:
        """Cancel the tries of a project that is not served any more."""
        self._due.pop(project, None)
        self._known.discard(project)
        self._failures.pop(project, None)
        await cancel([*filter(None, [self._active.get(project)]), *self._tries.pop(project, ())])

    @property
    def _stopping(self) -> bool:
        return self._loop is not None and self._loop.done()

    def served(self, project: str) -> None:
        """Find the jobs of a project that is served from now on."""
        self._served.add(project)
        self._changed.set()

    def wake(self, project: str) -> None:
        """Claim the jobs of a project that are due, soon: some may have been added."""
        self._plan(project, 0.0)

    def _plan(self, project: str, due: float) -> None:
        if due < self._due.get(project, math.inf):
            self._due[project] = due
            self._changed.set()

    async def _run(self) -> None:
        looked, before, tick = -math.inf, set[str](), TICK_SECONDS
        while True:
            now, projects = self._clock(), self._projects()
            if self._present is not None:
                present, tick = self._present(), FLEET_SECONDS
                if before - present or not 0 <= now - looked < TICK_SECONDS:
                    self._served |= projects.keys()
                    looked = now
                before = present
            while self._served:
                name = self._served.pop()
                store = self._store_of(name)
                try:
                    due = await store.next_due() if store is not None else None
                except SvcError:  # The claim reports it, and is tried again.
                    due = 0
                if due is None:
                    self._known.add(name)
                else:
                    self._plan(name, due / 1000 if name in self._known else 0.0)
            now = self._clock()
            for name in [each for each, due in self._due.items() if due <= now]:
                del self._due[name]
                if name in projects and name not in self._active:
                    self._active[name] = asyncio.create_task(self._claim_all(name))
                elif name in projects:
                    self._plan(name, now + BUSY_SECONDS)
            wait = min(self._due.values(), default=math.inf) - self._clock()
            self._changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(min(max(wait, 0.0), tick)):
                    await self._changed.wait()

    async def _claim_all(self, name: str) -> None:
        """Begin tries until no job is due, or until as many run as may."""
        try:
            if (again := await self._claim(name)) is not None:
                self._plan(name, again)
            self._failures.pop(name, None)
        except Exception as error:
            if self._failures.get(name) != str(error):
                trace = None if isinstance(error, SvcError) else error
                _log.error("the jobs of %s do not run: %s", name, error, exc_info=trace)
            self._failures[name] = str(error)
            self._known.discard(name)  # The claim may be stored.
            self._plan(name, self._clock() + RETRY_SECONDS)
        finally:
            del self._active[name]

    async def _claim(self, name: str) -> float | None:
        """Begin tries, and return when to do so again; None: when a try ends or a job is added."""
        store, project = self._store_of(name), self._projects().get(name)
        if store is None or project is None:
            return None
        tries = self._tries.setdefault(name, set())
        if name not in self._known:
            await store.reclaim(self._node, self._owner, [each.get_name() for each in tries])
            self._known.add(name)
        while True:
            free = min(AT_ONCE - len(tries), self._share.free(name))
            if free <= 0:
                return None if len(tries) >= AT_ONCE else self._clock() + BUSY_SECONDS
            limit = max((each.run_limit_secs for each in project.resources.values()), default=0)
            until = int((self._clock() + limit + MARGIN_SECONDS) * 1000)
            jobs, following = await store.claim(self._owner, until=until, count=free)
            for job in jobs:
                spawn(tries, self._try(name, store, job)).set_name(job.id)
            if len(jobs) < free:
                return following / 1000 if following is not None else None

    async def _try(self, name: str, store: JobStore, job: StoredJob) -> None:
        """Run a try of a job, store its end, and look for more jobs."""
        request = request_id()
        try:
            async with self._share.run(name):
                ended = await self._outcome(name, store, job, request)
        except Exception as error:
            _log.exception("a try of the job %s of %s failed", job.id, name)
            ended = self._failed(name, job, request, f"an error in svc: {error}")
        failure = ""
        await asyncio.sleep(GATHER_SECONDS - time.monotonic() % GATHER_SECONDS)
        while ended is not None:
            try:
                await store.end(self._owner, ended)
                break
            except Exception as error:
                if failure != str(error):
                    _log.error("the end of the job %s of %s is not stored: %s", job.id, name, error)
                failure = str(error)
            if self._stopping:
                break  # The claim ends by itself, and the job runs again.
            await asyncio.sleep(RETRY_SECONDS)
        if not self._stopping:
            self._plan(name, self._clock())

    async def _outcome(self, name: str, store: JobStore, job: StoredJob, request: str) -> Ended | None:
        if job.tries > job.max_tries:
            return self._failed(name, job, request, "its last try was interrupted", final=True)
        project = self._projects().get(name)
        if project is None or job.resource not in project.resources:
            return self._failed(name, job, request, f"{name} has no resource {job.resource}")
        body = await store.body(job)
        if body is None:
            return None
        fields = {"user-agent": "svc-jobs", "content-length": str(len(body)), "x-svc-job": job.id}
        fields |= {"x-svc-job-try": str(job.tries), "x-svc-job-tries": str(job.max_tries)}
        if body:
            fields["content-type"] = "application/json" if job.text else "application/octet-stream"
        exchange = MemoryExchange(internal_request(name, job.resource, job.path, request, fields), body)
        await self._send(exchange)
        if exchange.aborted and self._stopping:
            now = int(self._clock() * 1000)
            return Ended(job.id, due=now, request=request, error="interrupted: the service stopped")
        status = None if exchange.aborted else exchange.status
        if status is not None and status < HTTPStatus.BAD_REQUEST:
            return Ended(job.id, done=True)
        error = f"status {status}" if status is not None else "no response"
        answer = dict(exchange.fields) if status is not None else {}
        text = answer.get(b"retry-after", b"").decode("latin-1").strip()
        after = retry_after(text, self._clock(), MAX_RETRY_AFTER_SECONDS)
        return self._failed(name, job, request, error, after=after, final=status in FINAL)

    def _failed(
        self, name: str, job: Job, id_: str, error: str, *, after: float | None = None, final: bool = False
    ) -> Ended:
        """Log a failure, and return the end of the try."""
        level: Severity = "WARN"
        if final or job.tries >= job.max_tries:
            due, level = None, "ERROR"
            text = f"is dead: {error}; run it again: svc jobs retry {job.id}"
        else:
            backoff = min(BACKOFF_SECONDS * 2 ** (job.tries - 1), MAX_BACKOFF_SECONDS)
            due = self._clock() + (backoff if after is None else after)
            text = f"failed: {error}; it runs again at {utc(due)}"
        text = f"job {job.id} {job.path}: try {job.tries} of {job.max_tries} {text}"
        self._timeline_of(name).append(PlatformRecord(time.time_ns(), job.resource, level, text, id_))
        return Ended(job.id, due=None if due is None else int(due * 1000), request=id_, error=error)
