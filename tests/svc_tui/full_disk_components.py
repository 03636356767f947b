"""Deploys and first requests of js components with ever more free space on a small disk.

Fails if a component that does not fit ends with another error, replaces the live version, or is not served
once there is space. The data folder is on a file system of its own (`tests/support/full_disk.py`).
"""

import os
import sys
import tempfile
from http import HTTPStatus
from itertools import count
from pathlib import Path

import httpx

from engine.errors import SvcError
from engine.files import reserve
from engine.gateway import on_demand
from tests.svc_tui.full_disk_deploys import fill
from tests.svc_tui.hosted import Hosted
from tests.svc_tui.test_template import answers, application, bundled, send

STEP = 16
"""Pages between two attempts."""
HEADERS = {"host": "web--one.apps.example"}


def main(data: Path) -> None:
    reserve.RESERVE_SHARE = 0.0
    on_demand.RETRY_SECONDS = 0.0
    cache = Path(os.environ["SVC_TEST_CACHE"])
    with tempfile.TemporaryDirectory() as folder:
        first, second = (
            bundled(application(Path(folder) / "one", "one", text), cache) for text in ("first", "second")
        )
    with Hosted(data) as hosted, hosted.claim() as client:
        send(client, first)
        assert answers(hosted, "one") == "first"
        for deploys in count():
            filler = fill(data.parent, deploys * STEP)
            try:
                send(client, second)
                break
            except SvcError as error:
                assert "space" in f"{error.message} {error.hint}".lower(), error
                assert str(data) not in f"{error.message} {error.hint}", error
                assert answers(hosted, "one") == "first"
            finally:
                filler.unlink()
        assert answers(hosted, "one") == "second"
    with Hosted(data) as hosted:
        for requests in count():
            filler = fill(data.parent, requests * STEP)
            answer = httpx.get(hosted.public, headers=HEADERS, timeout=300)
            filler.unlink()
            if answer.status_code == HTTPStatus.OK:
                break
            assert answer.status_code == HTTPStatus.SERVICE_UNAVAILABLE, answer.text
            assert str(data) not in answer.text
        assert answer.text == "second"
        assert any("No space left on device" in line for line in hosted.output), hosted.output
    assert deploys > 1 and requests > 1, (deploys, requests)
    print(f"whole, after {deploys} deploys and {requests} requests on full disks")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
