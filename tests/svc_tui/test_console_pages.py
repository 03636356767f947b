"""The pages of the web Console in this process, with real Console processes that never reach their engine."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from quart import Quart

from engine.errors import SvcError
from svc_tui.console.web import pages as module
from svc_tui.console.web import session
from svc_tui.console.web.pages import Pages, Visitor, create_app, page_routes
from svc_tui.console.web.session import DATA, Launch, PageStream, packet

pytestmark = pytest.mark.anyio
ORIGIN = {"Origin": "http://localhost"}


def application(pages: Pages, folder: Path) -> Quart:
    """Return an application whose Consoles wait for an `svc dev` that does not run."""
    target = {"project": "shop", "folder": str(folder), "address": ""}

    async def visitor(project: str) -> Visitor:
        return Visitor("ann", "shop", Launch(target, {"SVC_HOME": str(folder)}))

    app = create_app("/")
    app.register_blueprint(page_routes(pages, visitor))
    return app


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@pytest.fixture
async def pages() -> AsyncIterator[Pages]:
    pages = Pages()
    yield pages
    await pages.close()


async def test_page_above_the_limit_is_refused_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pages: Pages
) -> None:
    monkeypatch.setattr(module, "MAX_PAGES", 1)
    client = application(pages, tmp_path).test_client()
    async with client.request("/stream", method="POST", headers=ORIGIN) as first:
        await first.send_complete()
        await first.receive()
        refused = await client.post("/stream", headers=ORIGIN)
        assert refused.status_code == 503
        assert "open in 1 pages" in await refused.get_data(as_text=True)
        await first.disconnect()
    await until(lambda: not pages.count)
    again = await client.post("/stream", headers={"Origin": "http://evil.example"})
    assert again.status_code == 403


async def test_user_above_the_limit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pages: Pages
) -> None:
    monkeypatch.setattr(module, "MAX_USER_PAGES", 1)
    launch = Launch({}, {})
    owners = [module.Visitor(number, "shop", launch, user="ann") for number in (1, 2)]
    pages._acquire(owners[0], PageStream())
    with pytest.raises(SvcError, match="open in 1 pages"):
        pages._acquire(owners[1], PageStream())
    pages._acquire(module.Visitor(3, "shop", launch, user="bob"), PageStream())


@pytest.mark.parametrize(
    "text",
    [
        "[",
        "1",
        '["resize", 1]',
        '["resize", {"width": 1e999, "height": 1}]',
        '["stdin", 1]',
        "[" * 100_000,
        "\ud800".encode("utf-8", "surrogatepass"),
    ],
)
async def test_malformed_input_harms_nothing(tmp_path: Path, pages: Pages, text: str | bytes) -> None:
    client = application(pages, tmp_path).test_client()
    async with client.request("/stream", method="POST", headers=ORIGIN) as stream:
        await stream.send_complete()
        await stream.receive()
        id = stream.headers["x-svc-page"]  # type: ignore[index]
        answer = await client.post(f"/input/{id}", headers=ORIGIN, data=text)
        assert answer.status_code in (204, 422)
        large = await client.post(f"/input/{id}", headers=ORIGIN, data=b"x" * (module.MAX_INPUT_BYTES + 1))
        assert large.status_code == 413
        pages._sessions[id].receiving = module.MAX_INPUTS
        flood = await client.post(f"/input/{id}", headers=ORIGIN, data='["focus"]')
        assert flood.status_code == 503
        await stream.disconnect()


async def test_page_without_input_and_page_that_reads_nothing_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHECK_SECONDS", 0.05)
    pages = Pages(idle_seconds=0.2)
    client = application(pages, tmp_path).test_client()
    answer = await client.post("/stream", headers=ORIGIN)
    assert b"not used for a long time" in await answer.get_data(as_text=False)
    await until(lambda: not pages.count)
    await pages.close()
    monkeypatch.setattr(session, "STALLED_SECONDS", 0.2)
    pages = Pages()
    visitor = Visitor("ann", "shop", Launch({"project": "shop", "folder": str(tmp_path), "address": ""}, {}))
    await pages.stream(visitor, 80, 24)
    await until(lambda: not pages.count)
    await pages.close()


async def test_slow_page_holds_back_the_console_until_it_is_closed() -> None:
    page = PageStream()
    await page.send(DATA, b"x" * session.MAX_UNSENT_BYTES)
    waiting = asyncio.create_task(page.send(DATA, b"more"))
    await asyncio.sleep(0)
    assert not waiting.done()
    frames = page.frames()
    assert len(await anext(frames)) == session.MAX_UNSENT_BYTES + 5
    assert await anext(frames) == packet(DATA, b"more")
    await page.send(DATA, b"x" * session.MAX_UNSENT_BYTES)
    blocked: Awaitable[None] = asyncio.create_task(page.send(DATA, b"lost"))
    await page.close("The end.")
    await blocked
    assert (await anext(frames)).endswith(b'["end", "The end."]')
    with pytest.raises(StopAsyncIteration):
        await anext(frames)


async def test_lost_access_ends_page_with_reason(tmp_path: Path) -> None:
    ends: list[Callable[[str], None]] = []
    watched: list[bool] = []

    def watch(end: Callable[[str], None]) -> Callable[[], None]:
        ends.append(end)
        return lambda: watched.append(False)

    pages = Pages()
    launch = Launch({"project": "shop", "folder": str(tmp_path), "address": ""}, {})
    response = await pages.stream(Visitor("ann", "shop", launch, watch), 80, 24)
    ends[0]("You were logged out.")
    parts = [part async for part in response.response]  # type: ignore[union-attr]
    assert b"You were logged out." in b"".join(map(bytes, parts))
    await until(lambda: not pages.count)
    assert watched
    with pytest.raises(SvcError, match="has ended"):
        pages.session(response.headers["x-svc-page"], "ann")
    await pages.close()
