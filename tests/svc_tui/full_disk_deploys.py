"""Deploys, rollbacks and secrets with ever more free space, so that the disk is full at each step in turn.

Then the folders of the service are read-only, one after the other. The data folder is on a small file system
of its own (`tests/support/full_disk.py`). Fails if a change that does not fit is half done, ends with another
error, or leaves the service unusable.
"""

import errno
import gc
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from engine.errors import SvcError
from engine.files import reserve
from svc_tui.client import Client
from tests.support.waiting import until
from tests.svc_tui import versioned_shop as shop
from tests.svc_tui.hosted import Hosted, deploy

PAGE = 4096
STEP = 12
"""Pages between two attempts."""
PLACES = ("uploads", "unpacked", "cache/compiled", "projects/shop/tables")
MIGRATIONS = {1: 1, 100 + PLACES.index("projects/shop/tables"): 3}
"""The number of migrations of some versions; the others have 2."""


def write(root: Path, version: int) -> None:
    shop.write(root, version, migrations=MIGRATIONS.get(version, 2))
    (root / "site" / "large.bin").write_bytes(os.urandom(5 * PAGE))


def fill(folder: Path, free_pages: int) -> Path:
    """Fill the file system of a folder up to so many pages; return the file to remove."""
    filler = folder / "filler"
    with filler.open("wb") as file:
        while (size := (os.statvfs(folder).f_bavail - free_pages) * PAGE) > 0:
            try:
                os.posix_fallocate(file.fileno(), 0, size)
                break
            except OSError as error:
                if error.errno != errno.ENOSPC:  # The service took space meanwhile.
                    raise
    return filler


def rejected(change: Callable[[], Any], hosted: Hosted, live: int, *reasons: str) -> bool:
    """Change something; return whether that failed, for one of these reasons and without a change."""
    try:
        change()
    except SvcError as error:
        text = f"{error.message} {error.hint}".lower()
        assert any(reason in text for reason in reasons), text
        assert str(hosted.data) not in text
        assert shop.live_version(hosted) == live
        return True
    return False


def fails(change: Callable[[], Any], hosted: Hosted, live: int) -> int:
    """Change something with more and more free space; return how many of the attempts failed."""
    for attempt in count():
        filler = fill(hosted.data.parent, attempt * STEP)
        failed = rejected(change, hosted, live, "space")
        filler.unlink()
        if not failed:
            return attempt
    raise AssertionError


def full(client: Client, root: Path, hosted: Hosted) -> list[int]:
    """Set a secret, deploy and roll back on full disks; return how many attempts failed each time."""
    first = client.call("GET", "/v1/projects/shop")["deployment"]["id"]
    secret = fails(lambda: put_secret(client, "OTHER"), hosted, 1)
    assert client.call("GET", "/v1/projects/shop/secrets")["secrets"] == ["KEY", "OTHER"]
    versions = count(2)
    attempted = 1

    def deploy_next() -> None:
        nonlocal attempted
        attempted = next(versions)
        write(root, attempted)
        deploy(client, root)

    deployed = fails(deploy_next, hosted, 1)
    assert (shop.live_version(hosted), shop.migrations(client)) == (attempted, 2)
    rolled_back = fails(lambda: roll_back(client, first), hosted, attempted)
    assert shop.live_version(hosted) == 1
    return [secret, deployed, rolled_back]


def put_secret(client: Client, name: str) -> None:
    client.call("PUT", f"/v1/projects/shop/secrets/{name}", {"value": "a secret"})


def roll_back(client: Client, deployment: str) -> None:
    revision = client.call("GET", "/v1/projects/shop/deployments")["revision"]
    client.call(
        "POST", "/v1/projects/shop/rollback", {"deployment": deployment, "message": "", "revision": revision}
    )


def read_only(client: Client, root: Path, hosted: Hosted) -> None:
    """Deploy while a folder is read-only."""
    for version, name in enumerate(PLACES, 100):
        live = shop.live_version(hosted)
        write(root, version)
        place = str(hosted.data / name)
        subprocess.run(["mount", "--bind", place, place], check=True)
        subprocess.run(["mount", "-o", "remount,ro,bind", place], check=True)
        failed = rejected(lambda: deploy(client, root), hosted, live, "read-only", "permission", "access")
        # A thread may look for jobs in the tables.
        until(lambda place=place: subprocess.run(["umount", place]).returncode == 0, 10)
        assert failed, name
        deploy(client, root)
        assert shop.live_version(hosted) == version


def main(data: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "shop"
        write(root, 1)
        reserve.RESERVE_SHARE = 0.0
        with Hosted(data) as hosted, hosted.claim() as client:
            put_secret(client, "KEY")
            deploy(client, root)
            failed = full(client, root, hosted)
            read_only(client, root, hosted)
            live = shop.live_version(hosted)
        gc.collect()  # Errors refer to the service, which has removed files open.
        subprocess.run(["mount", "-o", "remount,ro", str(data.parent)], check=True)
        try:
            Hosted(data).stop()
        except SvcError as error:
            assert "read-only" in error.message.lower() and error.hint, error
        else:
            raise AssertionError("a service starts on a read-only folder")
        subprocess.run(["mount", "-o", "remount,rw", str(data.parent)], check=True)
        with Hosted(data) as hosted:
            assert shop.live_version(hosted) == live
    print(f"whole, after {failed} full disks")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
