"""Kills a service after changes of its disk during two concurrent deploys, and checks the next start.

Called with an empty folder, the number of the first change to kill at, and a distance to the next ones. Each
time, a forked process starts the service with version 1 and deploys versions 2 and 3 from one revision.
Another process then checks that one whole version is live, an acknowledged one if any, and that deploys work.
Prints the number of kills.
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
from tests.svc_tui.hosted import Hosted, deploy, static_shop

CODE = (
    "engine/bucket",
    "engine/deploy",
    "engine/files",
    "engine/service",
    "engine/static_files",
    "doors/tables/migrations",
    "doors/tables/sqlite",
)


def write(folder: Path, version: int) -> Path:
    """Write a version of the project; return its folder. Versions from 2 on have a second migration."""
    root = static_shop(folder / f"version {version}")
    (root / "tables").mkdir()
    for number in range(1, 3 if version > 1 else 2):
        (root / "tables" / f"{number}.sql").write_text(f"create table t{number} (a integer primary key);")
    (root / "site" / "index.html").write_text(str(version))
    (root / "site" / "same.txt").write_text(str(version))
    return root


def start(folder: Path) -> None:
    """Claim a service, deploy version 1, and write the session to a file."""
    with Hosted(folder / "data") as hosted, hosted.claim() as client:
        deploy(client, write(folder, 1))
        (folder / "token").write_text(hosted.token)
    for version in (2, 3, 4):
        write(folder, version)


def race(folder: Path, report: int) -> None:
    """Deploy versions 2 and 3 at once; write the acknowledged ones to a descriptor."""

    def attempt(version: int) -> None:
        with suppress(SvcError), Client(hosted.control, token) as client:
            deploy(client, folder / f"version {version}", revision=revision)
            os.write(report, b"%d" % version)

    token = (folder / "token").read_text()
    with Hosted(folder / "data") as hosted:
        with Client(hosted.control, token) as client:
            revision = client.call("GET", "/v1/projects/shop/deployments")["revision"]
        with ThreadPoolExecutor(2) as threads:
            list(threads.map(attempt, (2, 3)))


def check(folder: Path, acknowledged: bytes) -> None:
    """Fail unless one whole version is live, and the next deploy works."""
    with Hosted(folder / "data") as hosted, Client(hosted.control, (folder / "token").read_text()) as client:
        assert not any("not served" in line or "internal" in line for line in hosted.output), hosted.output
        live = hosted.get().text
        assert live == hosted.get("/same.txt").text, "a mixture of two versions"
        assert len(acknowledged) <= 1, f"acknowledged {acknowledged!r}"
        assert live in (acknowledged.decode() or "123"), f"{live} is live, acknowledged is {acknowledged!r}"
        history = client.call("GET", "/v1/projects/shop/deployments")
        assert [each["live"] for each in history["deployments"]].count(True) == 1
        applied = client.call("GET", "/v1/projects/shop/migrations")["applied"]
        assert len(applied) in ((1, 2) if live == "1" else (2,)), applied
        deploy(client, folder / "version 4")
        assert hosted.get().text == hosted.get("/same.txt").text == "4"


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
