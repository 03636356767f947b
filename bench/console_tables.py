"""Tables over a million rows: how long until the first are to be seen, and any others, sorted and filtered.

The Console with its engine in it, as `svc` runs it, without a terminal. `python -m bench.console_tables`.
"""

import asyncio
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles

from bench.console_app import resident
from engine.http.sockets import bind
from screens.tables.screen import TablesScreen
from screens.widgets.virtual_list import VirtualRows
from svc_tui.console.app import Console
from svc_tui.console.engine import EmbeddedEngine
from svc_tui.console.start import LoginActions

ROWS = 1_000_000
JUMPS = 200
_LOOK_SECONDS = 0.001
_SVC_TOML = '[project]\nname = "bench"\n\n[resource.web]\nlane = "static"\npublic = true\noutput = "site"\n'
_TABLE = "create table people (id integer primary key, name text, age integer, mail text, at timestamp)"
_FILL = (
    "with recursive n(i) as (select 1 union all select i + 1 from n where i < $1)"
    " insert into people select i, 'name ' || (i * 7919 % 1000003), i * 31 % 97, 'mail' || i || '@x.org',"
    " '2026-11-21T09:14:03.120Z' from n"
)


def figures() -> dict[str, float]:
    """Return milliseconds to the first rows, to a random one (p95), to those of a sort and of a filter.

    `rss` is the memory of the Console and its engine at the end, in MB.
    """
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "site").mkdir()
        (Path(folder) / "svc.toml").write_text(_SVC_TOML)
        attachment = EmbeddedEngine(Path(folder), "bench", bind("localhost", 0))
        try:
            return asyncio.run(_measure(attachment))
        finally:
            attachment.stop()


async def _measure(attachment: EmbeddedEngine) -> dict[str, float]:
    app = Console(attachment, LoginActions())
    app.animation_level = "none"
    async with app.run_test(size=(100, 30)) as pilot:
        await _until(lambda: app._client.state == "live")
        for sql, params in ((_TABLE, []), (_FILL, [ROWS])):
            await app._client.call("POST", "/sql", {"sql": sql, "params": params, "write": True})
        before = resident()
        began = time.monotonic()
        app.action_tab("tables")
        await _until(lambda: isinstance(app.screen, TablesScreen) and app.screen.is_mounted)
        screen = app.screen
        assert isinstance(screen, TablesScreen)
        rows = screen.query_one(VirtualRows)
        first = await _painted(rows, 0, began)
        chance = random.Random(7)
        jumps = []
        for _ in range(JUMPS):
            to = chance.randrange(ROWS)
            began = time.monotonic()
            rows.cursor_row = to
            jumps.append(await _painted(rows, to, began))
        rows.cursor_row, rows.cursor_column = 0, 2
        await _painted(rows, 0, time.monotonic())
        times = {}
        for name, action in (("sort", "sort(False)"), ("filter", "")):
            grid, began = screen._grid, time.monotonic()
            if action:
                await screen.run_action(action)
            else:
                screen.navigate(["people", "age=42"])
            await _until(lambda grid=grid: screen._grid is not grid)  # type: ignore[misc]
            times[name] = await _painted(rows, 0, began)
        await pilot.pause()
        return {
            "first_ms": first,
            "jump_ms": quantiles(jumps, n=20)[-1],
            "jump_median_ms": median(jumps),
            "sort_ms": times["sort"],
            "filter_ms": times["filter"],
            "rss": resident(),
            "rss_before": before,
        }


async def _painted(rows: VirtualRows, row: int, began: float) -> float:
    """Wait until a row is on the screen; return how long that took, in ms."""
    await _until(lambda: rows.row(row) is not None)
    drawn = asyncio.Event()
    rows.call_after_refresh(drawn.set)
    await drawn.wait()
    return (time.monotonic() - began) * 1e3


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not holds():  # noqa: ASYNC110 - what is watched knows nothing of it
            await asyncio.sleep(_LOOK_SECONDS)


def main() -> None:
    """Measure and print."""
    found = figures()
    print("  ".join(f"{name} {value:.0f}" for name, value in found.items()))


if __name__ == "__main__":
    main()
