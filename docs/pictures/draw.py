"""Draws the pictures of the Console in this folder: a copy of the guestbook with sample traffic.

Run by `make pictures`, which needs the toolchains of the guestbook. The pictures are committed.
"""

import asyncio
import json
import os
import re
import shutil
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from time import monotonic, sleep

from textual.pilot import Pilot

from engine.http.sockets import bind
from screens.terminal_app import DARK
from svc_tui.client import Unreachable
from svc_tui.console.app import Console
from svc_tui.console.deployer import deployer_for_folder
from svc_tui.console.engine import EmbeddedEngine
from svc_tui.console.start import LoginActions

PICTURES = Path(__file__).resolve().parent
ROOT = PICTURES.parent.parent
SIZES = ((80, 24), (160, 48))
READY_SECONDS = 300.0
BOARD_SECONDS = 61.0
"""Duration that the Board's numbers cover."""
ENTRIES = (
    ("go", "Ada", "The first page I ever signed from a terminal."),
    ("js", "Grace", "It answered before I had let go of the key."),
    ("rust", "Linus", "Nine megabytes, and then it was gone."),
    ("go", "Margaret", "Where do the instances go when they are done?"),
    ("js", "Edsger", "Simplicity is prerequisite for reliability."),
    ("rust", "Barbara", "A fresh one every time. I like it."),
    ("js", "Ken", "cat /dev/hands > guestbook"),
    ("go", "Радія", "Працює."),
)


def send(url: str, path: str, body: object = None) -> int:
    """Send a request and return the status of the response."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, data, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            response.read()
            return int(response.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


def wait_until_built(engine: EmbeddedEngine) -> None:
    """Wait until every resource is built. Raises `SystemExit` when a build fails."""
    end = monotonic() + READY_SECONDS
    while monotonic() < end:
        try:
            with engine.connect() as client:
                state = client.call("GET", "/v1/projects/guestbook/state")
        except Unreachable:
            continue
        stages = {each["state"] for each in state["resources"]}
        if "failed" in stages:
            break
        if stages == {"ready"}:
            return
        sleep(0.5)
    sys.exit("the guestbook is not built; `svc -C sample-apps/guestbook dev` says why")


def warm_up(url: str) -> None:
    """Send the first requests of each resource, and wait until the Board no longer counts them."""
    for lane in ("js", "go", "rust") * 2:
        send(url, f"/{lane}/entries")
    sleep(BOARD_SECONDS)


def traffic(url: str) -> None:
    """Write and read entries; one of them is invalid."""
    for lane, author, message in ENTRIES:
        send(url, f"/{lane}/entries", {"author": author, "message": message})
        send(url, "/")
        send(url, f"/{lane}/entries")
    send(url, "/js/entries", {"author": "", "message": "stranger"})
    for lane in ("js", "go", "rust") * 4:
        send(url, f"/{lane}/entries")


async def draw(folder: Path) -> None:
    """Draw each screen in each size."""
    engine = EmbeddedEngine(folder, "guestbook", bind("localhost", 0))
    app = Console(engine, LoginActions(), deployer=deployer_for_folder(folder, "guestbook", os.environ))
    app.animation_level = "none"
    app.register_theme(DARK)  # The colors of this process's own terminal do not matter.
    try:
        async with app.run_test(size=SIZES[0]) as pilot:
            await asyncio.to_thread(wait_until_built, engine)
            await asyncio.to_thread(warm_up, engine.info.address)
            await asyncio.to_thread(traffic, engine.info.address)
            for width, height in SIZES:
                await pilot.resize_terminal(width, height)
                for key, name in (("1", "board"), ("2", "tables"), ("3", "logs")):
                    await open_tab(pilot, key)
                    picture = PICTURES / f"{name}-{width}x{height}.svg"
                    # Textual references fonts of another origin; the reader's own fonts are used instead.
                    picture.write_text(re.sub(r"@font-face \{.*?\}", "", app.export_screenshot(), flags=re.S))
    finally:
        await asyncio.to_thread(engine.stop)


async def open_tab(pilot: Pilot[None], key: str) -> None:
    """Open a tab and wait until it shows its data."""
    await pilot.press(key)
    await pilot.pause(3)


def main() -> None:
    """Draw all pictures of a copy of the guestbook."""
    with tempfile.TemporaryDirectory(prefix="svc-pictures-") as temporary:
        folder = Path(temporary) / "guestbook"
        shutil.copytree(ROOT / "sample-apps" / "guestbook", folder, ignore=shutil.ignore_patterns(".svc"))
        asyncio.run(draw(folder))


if __name__ == "__main__":
    main()
