"""Kills a service after changes of its disk during concurrent deploys, and checks the next start.

Called with an empty folder, the number of the first change to kill at, and a distance to the next ones. Each
time, a forked process starts the service with version 1, deploys versions 2 and 3, rolls back to version 0,
and draws a mount in version 1, all from one revision. Another process then checks that one whole version is
live, an acknowledged one if any, and that deploys work. Prints the number of kills.
"""

import os
import shutil
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from pathlib import Path

from engine.errors import SvcError
from svc_tui.client import Client
from tests.support.killing import die_after, forked
from tests.svc_tui import versioned_shop as shop
from tests.svc_tui.hosted import Hosted, deploy

CODE = (
    "engine/bucket",
    "engine/deploy",
    "engine/files",
    "engine/service",
    "engine/static_files",
    "engine/wasm/compile",
    "doors/tables/migrations",
    "doors/tables/sqlite",
)
PLACE = "/v1/projects/shop/manifest"
DRAWN = {"op": "add", "resource": "web", "pattern": "/hand-drawn", "target": "api"}


def write(folder: Path, version: int) -> Path:
    """Write a version of the project; return its folder. Versions from 2 on have a second migration."""
    return shop.write(folder / f"version {version}", version, migrations=2 if version > 1 else 1)


def start(folder: Path) -> None:
    """Claim a service, deploy versions 0 and 1, and write the session to a file."""
    with Hosted(folder / "data") as hosted, hosted.claim() as client:
        client.call("PUT", "/v1/projects/shop/secrets/KEY", {"value": "1"})
        for version in (0, 1):
            deploy(client, write(folder, version))
        (folder / "token").write_text(hosted.token)
    for version in (2, 3, 4):
        write(folder, version)


def race(folder: Path, report: int) -> None:
    """Deploy versions 2 and 3, roll back to 0 and draw in 1 at once; write acknowledged ones to `report`."""

    def attempt(version: int) -> None:
        with suppress(SvcError), Client(hosted.control, token) as client:
            if version == 1:
                client.call("POST", f"{PLACE}/write", {"changes": [DRAWN], "digest": digest})
            elif version:
                deploy(client, folder / f"version {version}", revision=revision)
            else:
                payload = {"deployment": first, "message": "", "revision": revision}
                client.call("POST", "/v1/projects/shop/rollback", payload)
            os.write(report, b"%d" % version)

    token = (folder / "token").read_text()
    with Hosted(folder / "data") as hosted:
        with Client(hosted.control, token) as client:
            history = client.call("GET", "/v1/projects/shop/deployments")
            digest = client.call("GET", PLACE)["digest"]
        revision, first = history["revision"], history["deployments"][-1]["id"]
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(attempt, (1, 2, 3, 0)))


def check(folder: Path, acknowledged: bytes) -> None:
    """Fail unless one whole version is live, and the next deploy works."""
    with Hosted(folder / "data") as hosted, Client(hosted.control, (folder / "token").read_text()) as client:
        assert not any("not served" in line or "internal" in line for line in hosted.output), hosted.output
        live = str(shop.live_version(hosted))
        assert len(acknowledged) <= 1, f"acknowledged {acknowledged!r}"
        assert live in (acknowledged.decode() or "0123"), f"{live} is live, acknowledged is {acknowledged!r}"
        history = client.call("GET", "/v1/projects/shop/deployments")
        assert [each["live"] for each in history["deployments"]].count(True) == 1
        applied = shop.migrations(client)
        assert applied in ((1, 2) if live in "01" else (2,)), applied
        drawn = bool(client.call("GET", PLACE)["drawn"])
        answer = hosted.get("/hand-drawn")
        assert drawn == (answer.status_code == 200), f"drawn: {drawn}, but {answer.status_code} {answer.text}"
        assert drawn <= (live == "1"), f"{live} is live with the mount drawn in 1"
        assert drawn or acknowledged != b"1"
        deploy(client, folder / "version 4", discard=True)
        assert shop.live_version(hosted) == 4


def main(folder: Path, first: int, distance: int) -> None:
    before, root = folder / "before", folder / "killed"
    before.mkdir()
    assert forked(lambda: start(before)) == 0
    for kills, changes in enumerate(count(first, distance)):
        shutil.copytree(before, root)
        reading, writing = os.pipe()

        def killed(changes: int = changes, writing: int = writing) -> None:
            die_after(changes, root / "data", *CODE)
            race(root, writing)

        ended = forked(killed)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            acknowledged = pipe.read()
        assert ended in (0, -signal.SIGKILL), f"change {changes}: ended with {ended}"
        if forked(lambda acks=acknowledged: check(root, acks)) != 0:  # type: ignore[misc]
            raise SystemExit(f"killed after change {changes}, acknowledged {acknowledged!r}")
        shutil.rmtree(root)
        if ended == 0:
            print(f"kills={kills}")
            return


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
