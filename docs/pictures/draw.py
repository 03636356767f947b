"""Draws the pictures of the Console that stand here: a copy of the guestbook, with traffic, as it looks.

Run by `make pictures`. It needs what the guestbook needs to be built; the pictures are committed.
"""

import asyncio
import json
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
from svc_tui.client import Unreachable
from svc_tui.console.app import Console
from svc_tui.console.engine import EmbeddedEngine
from svc_tui.console.start import LoginActions

PICTURES = Path(__file__).resolve().parent
ROOT = PICTURES.parent.parent
SIZES = ((80, 24), (160, 48))
READY_SECONDS = 300.0
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


def ask(url: str, path: str, body: object = None) -> int:
    """Send a request, and return the status of the answer."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, data, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            answer.read()
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


def built(attachment: EmbeddedEngine) -> None:
    """Wait until every Resource is built: earlier requests fail, and the pictures would show that."""
    end = monotonic() + READY_SECONDS
    while monotonic() < end:
        try:
            with attachment.connect() as client:
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


def traffic(url: str) -> None:
    """Sign the book and read it, with a mistake as visitors make them."""
    for lane, author, message in ENTRIES:
        ask(url, f"/{lane}/entries", {"author": author, "message": message})
        ask(url, "/")
        ask(url, f"/{lane}/entries")
    ask(url, "/js/entries", {"author": "", "message": "stranger"})
    for lane in ("js", "go", "rust") * 4:
        ask(url, f"/{lane}/entries")


async def draw(folder: Path) -> None:
    """Draw each screen in each size."""
    attachment = EmbeddedEngine(folder, "guestbook", bind("localhost", 0))
    app = Console(attachment, LoginActions())
    app.animation_level = "none"
    try:
        async with app.run_test(size=SIZES[0]) as pilot:
            await asyncio.to_thread(built, attachment)
            await asyncio.to_thread(traffic, attachment.info.address)
            for width, height in SIZES:
                await pilot.resize_terminal(width, height)
                for key, name in (("1", "board"), ("2", "tables"), ("3", "logs")):
                    await shown(pilot, key)
                    picture = PICTURES / f"{name}-{width}x{height}.svg"
                    # The toolkit has fonts loaded from elsewhere; the reader's own will do.
                    picture.write_text(re.sub(r"@font-face \{.*?\}", "", app.export_screenshot(), flags=re.S))
    finally:
        await asyncio.to_thread(attachment.stop)


async def shown(pilot: Pilot[None], key: str) -> None:
    """Go to a tab and wait until all of it is there."""
    await pilot.press(key)
    await pilot.pause(3)


def main() -> None:
    """Draw all of them."""
    with tempfile.TemporaryDirectory(prefix="svc-pictures-") as place:
        folder = Path(place) / "guestbook"
        shutil.copytree(ROOT / "sample-apps" / "guestbook", folder, ignore=shutil.ignore_patterns(".svc"))
        asyncio.run(draw(folder))


if __name__ == "__main__":
    main()
