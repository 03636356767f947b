"""Snapshots of js resources in development: what they serve, when, and what stays of them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from engine.errors import SvcError
from tests.engine.control.developing import Quiet, developed

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
MANIFEST = '[project]\nname = "a"\n[resource.api]\nlane = "js"\npublic = true\n'
SOURCE = """const loaded = Date.now();
function fail() {
  console.log('before', new Map([[1, 2]]));
  throw new TypeError('on purpose');
}
export default {
  async fetch(request) {
    if (new URL(request.url).pathname === '/fail') fail();
    return Response.json([NUMBER, new Date(loaded).getFullYear() > 2000 ? 'loader' : 'snapshot']);
  },
};
"""


class Lines(Quiet):
    """A reporter that retains lines of progress and errors."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def progress(self, text: str) -> None:
        self.lines.append(text)

    def error(self, error: SvcError) -> None:
        self.lines.append(error.message)


class App:
    """A js resource in development; `number` is that of its latest save."""

    def __init__(self, root: Path, cache: Path) -> None:
        self.root, self.cache, self.source = root, cache, SOURCE
        self.number = 0
        self.reporter = Lines()
        self.client: httpx.AsyncClient
        self.save()
        (root / "svc.toml").write_text(MANIFEST)

    def save(self) -> None:
        self.number += 1
        (self.root / "index.js").write_text(self.source.replace("NUMBER", str(self.number)))

    async def get(self) -> tuple[int, str]:
        number, served_by = (await self.client.get("/")).json()
        return number, served_by

    async def failure(self) -> str:
        """Return the page of a failed request, without its id."""
        answer = await self.client.get("/fail", headers={"accept": "text/html"})
        return answer.text.replace(answer.headers["x-request-id"], "")

    async def until(self, holds: Callable[[int, str], bool]) -> list[tuple[int, str]]:
        """Send requests until a response holds, and return all of them."""
        answers = [await self.get()]
        while not holds(*answers[-1]):
            answers.append(await self.get())
        return answers

    def components(self) -> set[Path]:
        return {*(self.cache / "components").glob("*.wasm")}

    @asynccontextmanager
    async def running(self, workers: int = 1) -> AsyncIterator[None]:
        async with (
            developed(self.root, asyncio.Event(), self.cache, workers, self.reporter) as running,
            httpx.AsyncClient(base_url=f"http://localhost:{running.port}", timeout=60) as self.client,
        ):
            yield


@pytest.fixture
def app(tmp_path: Path, cache: Path) -> App:
    root = tmp_path / "süß und weit"
    (root / ".svc").mkdir(parents=True)
    return App(root, cache)


def run(test: Awaitable[None]) -> None:
    asyncio.run(asyncio.wait_for(test, 800))  # type: ignore[arg-type]


@pytest.mark.parametrize("workers", [1, 2])
def test_save_is_served_by_the_loader_and_then_by_a_snapshot(app: App, workers: int) -> None:
    async def test() -> None:
        async with app.running(workers):
            for _ in range(2):
                app.save()
                answers = await app.until(lambda number, by: (number, by) == (app.number, "snapshot"))
                after = answers[answers.index((app.number, "loader")) :]
                assert after == sorted(after)
            assert sum("that is the year 2000" in line for line in app.reporter.lines) == 1
            assert not any("making the component" in line for line in app.reporter.lines)

    run(test())


def test_snapshot_fails_and_prints_as_the_loader(app: App) -> None:
    async def test() -> None:
        async with app.running():
            app.save()
            await app.until(lambda number, by: (number, by) == (app.number, "loader"))
            loader = await app.failure()
            await app.until(lambda _, by: by == "snapshot")
            assert await app.failure() == loader
            assert "before Map(1)" in loader and "fail (index.js:4:9)" in loader

    run(test())


def test_save_during_the_making_of_a_snapshot_wins(app: App) -> None:
    async def test() -> None:
        async with app.running():
            answers = []
            for _ in range(6):
                app.save()
                answers += await app.until(lambda number, _: number == app.number)
                answers += [await app.get() for _ in range(10)]
            answers += await app.until(lambda _, by: by == "snapshot")
            numbers = [number for number, _ in answers]
            assert numbers == sorted(numbers) and answers[-1] == (app.number, "snapshot")

    run(test())


def test_module_without_a_snapshot_is_served_by_the_loader_and_reported_once(app: App) -> None:
    app.source = "setTimeout(() => {}, 1);\n" + SOURCE

    async def test() -> None:
        async with app.running():
            for _ in range(2):
                app.save()
                await app.until(lambda number, _: number == app.number)
                while not any("no snapshot" in line for line in app.reporter.lines):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            assert (await app.get())[1] == "loader"
            assert sum("no snapshot" in line for line in app.reporter.lines) == 1

    run(test())


def test_files_of_old_snapshots_are_removed(app: App) -> None:
    async def test() -> None:
        before = app.components()
        async with app.running():
            for _ in range(3):
                app.save()
                await app.until(lambda number, by: (number, by) == (app.number, "snapshot"))
            while len(app.components() - before) > 1:  # noqa: ASYNC110 - the last request of an older one ends
                await asyncio.sleep(0.02)
            (component,) = app.components() - before
            assert len(list((app.cache / "compiled").glob(f"{component.stem}-*.pages"))) == 1
        assert not component.exists()
        assert not list((app.cache / "compiled").glob(f"{component.stem}*"))

    run(test())
