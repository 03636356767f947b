"""Kills a service after changes of its disk while it removes a project, and checks the next start.

Called with an empty folder, the number of the first change to kill at, and a distance to the next ones. Each
time, a forked process starts the service and removes its project. Another process then checks that either
the whole project or nothing of it is there, and that a deploy of the name begins empty. Prints the number of
kills, and of those after which the project was there.
"""

import os
import shutil
import signal
import sqlite3
import sys
from contextlib import closing
from itertools import count
from pathlib import Path

from svc_tui.client import Client
from tests.support.killing import die_after, forked
from tests.svc_tui.hosted import Hosted, deploy, static_shop

CODE = ("engine/bucket", "engine/deploy", "engine/files", "engine/service", "svc_tui/serve")
TABLES = "data/projects/shop/tables/tables.db"


def start(folder: Path) -> None:
    """Claim a service and deploy a project with a row and a secret."""
    project = static_shop(folder / "shop")
    (project / "tables").mkdir()
    (project / "tables" / "0001-t.sql").write_text("CREATE TABLE t (id INTEGER PRIMARY KEY)")
    with Hosted(folder / "data") as hosted, hosted.claim() as client:
        client.call("PUT", "/v1/projects/shop/secrets/KEY", {"value": "1"})
        deploy(client, project)
        (folder / "token").write_text(hosted.token)
    with closing(sqlite3.connect(folder / TABLES)) as connection, connection:
        connection.execute("INSERT INTO t VALUES (1)")


def remove(folder: Path, report: int) -> None:
    """Remove the project; write to `report` once the service has acknowledged it."""
    with Hosted(folder / "data") as hosted, Client(hosted.control, (folder / "token").read_text()) as client:
        client.call("DELETE", "/v1/projects/shop")
        os.write(report, b"removed")


def rows(folder: Path) -> int:
    with closing(sqlite3.connect(f"file:{folder / TABLES}?mode=ro", uri=True)) as connection:
        return int(connection.execute("SELECT count(*) FROM t").fetchone()[0])


def check(folder: Path, acknowledged: bool) -> None:
    """Exit with 3 if the whole project is there, fail unless nothing of it is there."""
    with Hosted(folder / "data") as hosted, Client(hosted.control, (folder / "token").read_text()) as client:
        secrets = client.call("GET", "/v1/projects/shop/secrets")["secrets"]
        if hosted.get().status_code == 200:
            assert rows(folder) == 1 and secrets == ["KEY"] and not acknowledged
            os._exit(3)
        assert not (folder / "data/projects/shop").exists() and secrets == []
        assert client.call("GET", "/v1/projects") == {"projects": []}
        assert client.call("GET", "/v1/projects/shop/deployments")["deployments"] == []
        deploy(client, folder / "shop")
        assert hosted.get().text == "one" and rows(folder) == 0


def main(folder: Path, first: int, distance: int) -> None:
    before, root = folder / "before", folder / "killed"
    before.mkdir()
    assert forked(lambda: start(before)) == 0
    whole = 0
    for kills, changes in enumerate(count(first, distance)):
        shutil.copytree(before, root)
        reading, writing = os.pipe()

        def killed(changes: int = changes, writing: int = writing) -> None:
            die_after(changes, root / "data", *CODE)
            remove(root, writing)

        ended = forked(killed)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            acknowledged = pipe.read() != b""
        assert ended in (0, -signal.SIGKILL), f"change {changes}: ended with {ended}"
        checked = forked(lambda acks=acknowledged: check(root, acks))  # type: ignore[misc]
        if checked not in (0, 3):
            raise SystemExit(f"killed after change {changes}, acknowledged: {acknowledged}")
        whole += checked == 3 and ended != 0
        shutil.rmtree(root)
        if ended == 0:
            print(f"kills={kills} whole={whole}")
            return


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
