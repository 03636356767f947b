"""A project in development, served as by `svc dev`, without a terminal."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from engine.control.discovery import ControlEndpoint
from engine.dev.project import BuildFinished
from engine.errors import SvcError
from engine.http.sockets import bind, bind_reuseport
from engine.manifest.load import load
from engine.timeline.bus import TimelineBus
from svc_tui.dev.server import Reporter, Settings, run_dev


class Quiet:
    """A reporter that discards its messages."""

    def progress(self, text: str) -> None: ...

    def note(self, text: str) -> None: ...

    def warn(self, error: SvcError) -> None: ...

    def error(self, error: SvcError) -> None: ...

    def built(self, event: BuildFinished) -> None: ...


@dataclass(frozen=True)
class Developed:
    """A running project: its port and its control API."""

    port: int
    presence: ControlEndpoint


@asynccontextmanager
async def developed(
    root: Path,
    stop: asyncio.Event,
    cache: Path | None = None,
    workers: int = 1,
    reporter: Reporter | None = None,
) -> AsyncIterator[Developed]:
    """Serve a built project in development until the context exits."""
    sockets = bind_reuseport("localhost", 0, workers) if workers > 1 else [bind("localhost", 0)]
    settings = Settings(sockets, cache or root.parent / "cache", "dev")
    async with run_dev(load(root), settings, TimelineBus(), reporter or Quiet(), stop) as running:
        presence = await running.presence
        await running.dev.ready()
        yield Developed(settings.port, presence)


class Shop:
    """A project in development: its own address, and its control API."""

    def __init__(self, port: int, public: httpx.AsyncClient, control: httpx.AsyncClient) -> None:
        self.port = port
        self.public = public
        self.control = control

    async def call(self, method: str, path: str, status: int = 200, **options: Any) -> dict[str, Any]:
        """Send a request below the project's path; return the document of the response."""
        answer = await self.control.request(method, f"/v1/projects/shop{path}", **options)
        assert answer.status_code == status, answer.text
        document: dict[str, Any] = answer.json()
        return document

    async def state(self, **options: Any) -> dict[str, Any]:
        return await self.call("GET", "/state", params=options)

    async def until(self, name: str, state: str) -> dict[str, Any]:
        """Wait until a resource has this state; return its document."""
        while True:
            for each in (await self.state())["resources"]:
                if (each["name"], each["state"]) == (name, state):
                    return dict(each)
            await asyncio.sleep(0.02)


def develop(
    root: Path, test: Callable[[Shop], Awaitable[None]], cache: Path | None = None, workers: int = 1
) -> None:
    """Run a test against a project in development."""

    async def main() -> None:
        async with developed(root, asyncio.Event(), cache, workers) as running:
            session = {"authorization": f"Bearer {running.presence.token}"}
            async with (
                httpx.AsyncClient(base_url=f"http://localhost:{running.port}", timeout=60) as public,
                httpx.AsyncClient(base_url=running.presence.url, headers=session, timeout=60) as control,
            ):
                await asyncio.wait_for(test(Shop(running.port, public, control)), 300)

    asyncio.run(main())
