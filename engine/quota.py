"""Quotas of projects: limits that an owner of the service sets, and what enforces them in a process."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from engine.grant import Grant

MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """The limits of a project; `None` stands for no limit.

    `instances` counts requests that run at once, `memory_mb` is their memory in MiB. `requests` and `egress`
    (calls to other servers) are per second. `storage_mb` is the size of the tables in MiB, `files_mb` that of
    the files.
    """

    instances: int | None = None
    memory_mb: int | None = None
    requests: int | None = None
    storage_mb: int | None = None
    egress: int | None = None
    files_mb: int | None = None

    def share(self, processes: int) -> "Quota":
        """Return the quota of one of several processes: a part of each limit, at least 1."""
        parts = {
            name: -(-limit // processes)
            for name in ("instances", "memory_mb", "requests", "egress")
            if (limit := getattr(self, name)) is not None
        }
        return replace(self, **parts)


NO_QUOTA = Quota()


class RateLimit:
    """A token bucket of `per_second` tokens, which it gains in a second. Use on one event loop."""

    __slots__ = ("_clock", "_filled_at", "_tokens", "per_second")

    def __init__(self, per_second: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_second = per_second
        self._clock = clock
        self._filled_at = clock()
        self._tokens = float(per_second)

    def allow(self) -> bool:
        """Remove a token from the bucket; return whether it had one."""
        now = self._clock()
        elapsed, self._filled_at = now - self._filled_at, now
        self._tokens = min(self.per_second, self._tokens + elapsed * self.per_second)
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


class ActiveQuota:
    """The quota of a project in this process: `quota` of the project, and `limits`, this process's share."""

    __slots__ = ("_reports", "egress", "limits", "memory", "project", "quota", "requests")

    def __init__(self, project: str, quota: Quota, processes: int) -> None:
        self.project = project
        self.quota = quota
        self.limits = limits = quota.share(processes)
        self.memory = None if limits.memory_mb is None else limits.memory_mb * MIB
        self.requests = None if limits.requests is None else RateLimit(limits.requests)
        self.egress = None if limits.egress is None else RateLimit(limits.egress)
        self._reports: dict[str, RateLimit] = {}

    def admits(self, instances: int, memory: int, run_memory: int) -> bool:
        """Return whether another run may begin beside running ones. One run alone may in any case."""
        limit = self.limits.instances
        if limit is not None and instances >= limit:
            return False
        return self.memory is None or not instances or memory + run_memory <= self.memory

    def message(self, name: str) -> str:
        """Return which limit the project has reached, and the command that changes it."""
        texts = {
            "instances": f"{self.quota.instances} requests at once",
            "memory": f"{self.quota.memory_mb} MiB of memory for its requests",
            "requests": f"{self.quota.requests} requests a second",
            "storage": f"{self.quota.storage_mb} MiB of tables",
            "files": f"{self.quota.files_mb} MiB of files",
            "egress": f"{self.quota.egress} calls to other servers a second",
        }
        return (
            f"project {self.project} has reached its quota of {texts[name]}; an owner of the service can"
            f" change it: {change_command(self.project, name)}"
        )

    def report(self, name: str) -> Grant | None:
        """Return what changes a limit, for an event; `None` within a second of the last event."""
        reports = self._reports.setdefault(name, RateLimit(1))
        return Grant("quota", change_command(self.project, name)) if reports.allow() else None


def change_command(project: str, name: str) -> str:
    """Return the command that changes a limit."""
    return f"svc quota set {project} --{name} N"


class Quotas:
    """The quotas of the projects that a process serves, by project; others have no limits."""

    def __init__(self, processes: int = 1) -> None:
        """`processes` share each quota."""
        self._processes = processes
        self.active: dict[str, ActiveQuota] = {}

    def set(self, project: str, quota: Quota) -> None:
        """Enforce a quota from now on."""
        current = self.active.get(project)
        if quota == NO_QUOTA:
            self.active.pop(project, None)
        elif current is None or current.quota != quota:
            self.active[project] = ActiveQuota(project, quota, self._processes)
