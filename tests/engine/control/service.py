"""The control API of a service with accounts, over its real listener, on a bucket in a folder."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from argon2 import PasswordHasher

from engine.bucket.folder import FolderBucket
from engine.control.app import create_app
from engine.control.auth import routes
from engine.control.auth.accounts import Accounts, Passwords
from engine.control.auth.login_throttle import LoginThrottle
from engine.control.auth.routes import AuthServices
from engine.control.auth.sessions import Sessions
from engine.control.routes import operation
from engine.deploy.gc import GcReport, collect_garbage
from svc_tui.background_loop import run_in_background
from svc_tui.client import Client
from tests.engine.control.served import served

PASSWORD = "a horse on a staple"


class Clock:
    """A manual clock."""

    def __init__(self) -> None:
        self.now_ns = time.time_ns()

    def now(self) -> int:
        return self.now_ns

    def seconds(self) -> float:
        return self.now_ns / 1e9

    def advance(self, seconds: float) -> None:
        self.now_ns += int(seconds * 1e9)


def quick() -> Passwords:
    """Return password hashing that takes a millisecond."""
    return Passwords(PasswordHasher(time_cost=1, memory_cost=64, parallelism=1))


@dataclass(frozen=True)
class Service:
    """A service that runs on another thread."""

    url: str
    bucket: FolderBucket
    gate: AuthServices
    clock: Clock
    loop: asyncio.AbstractEventLoop

    def client(self, token: str = "") -> Client:
        return Client(self.url, token)

    def call(self, token: str, method: str, path: str, body: Any = None, **more: Any) -> Any:
        with self.client(token) as client:
            return client.call(method, path, body, **more)

    def do(self, work: Callable[[], Any]) -> Any:
        """Run a coroutine function on the service's loop; return its result."""
        return asyncio.run_coroutine_threadsafe(work(), self.loop).result(30)

    def claim(self, user: str = "ann") -> str:
        code = self.do(self.gate.accounts.new_claim_code)
        body = {"code": code, "user": user, "password": PASSWORD}
        return str(self.call("", "POST", "/v1/claim", body)["token"])

    def add(self, owner: str, user: str, **roles: str) -> str:
        """Add a user and return the token of a session of theirs."""
        self.call(owner, "PUT", f"/v1/users/{user}", {"password": PASSWORD, "roles": roles})
        return str(self.call("", "POST", "/v1/login", {"user": user, "password": PASSWORD})["token"])


@contextmanager
def running(folder: Path) -> Iterator[Service]:
    clock = Clock()

    @asynccontextmanager
    async def run(stop: asyncio.Event) -> AsyncIterator[Service]:
        bucket = FolderBucket(folder)
        accounts = Accounts(bucket.kv, quick(), clock.now)
        sessions = Sessions(bucket.kv, accounts, clock.now, clock.seconds)
        gate = AuthServices(accounts, sessions, LoginThrottle(clock.seconds))

        async def swept(*, count_only: bool) -> GcReport:
            return await collect_garbage(bucket, clock.now(), count_only=count_only)

        accounts_only = (routes.blueprint(gate), routes.user_blueprint(gate))
        subjects = (*accounts_only, operation.gc_blueprint(swept))
        async with served(create_app(sessions, subjects), stop) as url:
            yield Service(url, bucket, gate, clock, asyncio.get_running_loop())
        await bucket.aclose()

    with run_in_background(run, "service") as service:
        yield service
