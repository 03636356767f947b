"""`svc restore` into a folder: its lines and document, its end by Ctrl+C, and hints for wrong options."""

import asyncio
import json
import os
import shlex
import signal
import time
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from doors.tables.replication.copy import Copy
from engine.bucket.folder import FolderBucket
from engine.service.removals import OF_PROJECTS
from engine.service.secrets import KEY_FILE
from svc_tui.backup.restore import text
from svc_tui.main import run
from svc_tui.terminal.stderr import ProgressLine
from svc_tui.terminal.units import parse_moment
from tests.support.waiting import until
from tests.svc_tui.backup.test_tables import KEY, Service

ITEM = "create table item (id integer primary key, name text)"


@pytest.fixture
def service(tmp_path: Path) -> Service:
    service = Service(tmp_path)
    service.write(ITEM)
    service.ship()
    (tmp_path / KEY_FILE).write_text(KEY.text)
    return service


def command(service: Service, *options: str) -> list[str]:
    target = ("--data", str(service.root / "new"), "--key", str(service.root / KEY_FILE))
    return ["restore", "--from", service.store.url, *target, *options]


def interrupted(work: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that is interrupted by Ctrl+C while it works on its thread."""

    def step(*arguments: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.05)
        return work(*arguments)

    return step


@pytest.mark.parametrize("name", ["apply", "_apply_rows"])
def test_restore_ends_by_ctrl_c_and_leaves_nothing(
    service: Service, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    rows = "with recursive n (i) as (select 1 union all select i + 1 from n where i < 200000)"
    service.write(f"insert into item {rows} select i, 'row' from n")
    service.ship()
    monkeypatch.setattr(Copy, name, interrupted(getattr(Copy, name)))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert run(command(service)) == 130
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr().err == "canceled; nothing was restored\n"
    assert not [*service.root.glob("new"), *service.root.glob(".svc-restore-*")]
    monkeypatch.undo()
    assert run(command(service)) == 0


def test_progress_names_the_tables_of_each_project(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    service.write(ITEM, path=_second(service))
    service.ship()
    shown = list[str]()
    monkeypatch.setattr(ProgressLine, "show", lambda self, text: shown.append(text))
    assert run(command(service)) == 0
    assert shown == ["0 blobs, 0 B, tables of second", "0 blobs, 0 B, tables of shop"]


def _second(service: Service) -> Path:
    path = service.root / "data" / "projects" / "second" / "tables" / "tables.db"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def test_projects_without_tables_at_a_moment_are_named_and_not_counted(
    service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    between = text(time.time_ns() + 1000, exact=True)
    until(lambda: time.time_ns() > parse_moment(between))
    service.write(ITEM, path=_second(service))
    service.ship()
    assert run(command(service, "--at", between)) == 0
    output = capsys.readouterr()
    assert "tables of 1 project to" in output.out
    assert output.err.startswith("second: the backup of its tables begins at ")
    assert not (service.root / "new" / "projects" / "second").exists()
    (service.root / "new").rename(service.root / "first")
    assert run(command(service, "--at", between, "--json")) == 0
    document = json.loads(capsys.readouterr().out)
    assert [(each["project"], each["time"] is None) for each in document["tables"]] == [
        ("second", True),
        ("shop", False),
    ]
    assert parse_moment(document["time"]) and parse_moment(document["tables"][1]["time"])


def test_restore_of_a_project_has_nothing_of_the_others(service: Service) -> None:
    async def store() -> None:
        for key in ("users/ann", *(f"{kind}{name}" for kind in OF_PROJECTS for name in ("shop", "second"))):
            content = b'{"id": "1", "by": "ann", "at_ns": 1}'
            await service.bucket.kv.cas(f"{key}/1" if "deployments" in key else key, content, None)

    async def stored() -> set[str]:
        async with aclosing(FolderBucket(service.root / "new")) as bucket:
            return {each.key for each in await bucket.kv.list("")}

    service.write(ITEM, path=_second(service))
    asyncio.run(store())
    service.ship()
    assert run(command(service, "--project", "shop")) == 0
    found = asyncio.run(stored())
    assert "users/ann" in found and len(found) == 1 + len(OF_PROJECTS)
    assert not any("second" in each for each in found)


def test_file_as_data_directory_is_named(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    (service.root / "new").touch()
    assert run(command(service)) == 1
    assert f"{service.root}/new is a file\n" in capsys.readouterr().err


def test_hint_that_names_a_url_can_be_pasted(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    (service.root / "store").rename(service.root / "my store")
    url = f"file://{service.root}/my store"
    assert run(["backup", "status", url, "--key", str(service.root / KEY_FILE)]) == 0
    _, _, pasted = capsys.readouterr().err.strip().rpartition("run there: svc ")
    assert run([*shlex.split(pasted)[:-1], str(service.root / KEY_FILE)]) == 0
