"""SQL of a project's users that does not end: it delays no other project, and ends with its client."""

import asyncio
import time
from pathlib import Path

import httpx
import pytest

from doors.tables.api import query
from tests.svc_tui.hosted import PASSWORD, Hosted, deploy, static_shop

STATEMENTS = 12
"""More than the threads that other work of the service shares."""
PATIENCE_SECONDS = 60.0
"""Far below the time limit of a statement here."""
FOREVER = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) as n from n"


def test_endless_sql_delays_no_other_project_and_ends_with_its_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query, "TIMEOUT_SECONDS", 10 * PATIENCE_SECONDS)
    root = static_shop(tmp_path / "shop")
    (root / "tables").mkdir()
    (root / "tables" / "1.sql").write_text("create table note (id integer primary key);")
    with Hosted(tmp_path / "data") as hosted, hosted.claim() as client:
        deploy(client, root)
        (root / "svc.toml").write_text((root / "svc.toml").read_text().replace("shop", "other"))
        client.call("PUT", "/v1/users/eve", {"password": PASSWORD, "roles": {"shop": "viewer"}})
        token = client.call("POST", "/v1/login", {"user": "eve", "password": PASSWORD})["token"]

        async def attack() -> float:
            headers = {"authorization": f"Bearer {token}"}
            async with httpx.AsyncClient(base_url=hosted.control, headers=headers, timeout=None) as eve:
                endless = [
                    asyncio.create_task(eve.post("/v1/projects/shop/sql", json={"sql": FOREVER}))
                    for _ in range(STATEMENTS)
                ]
                await asyncio.sleep(0.5)
                began = time.monotonic()
                await asyncio.to_thread(others)
                assert not any(statement.done() for statement in endless)
                for statement in endless:
                    statement.cancel()
                await asyncio.gather(*endless, return_exceptions=True)
            return time.monotonic() - began

        def others() -> None:
            client.call("POST", "/v1/login", {"user": "ann", "password": PASSWORD})
            deploy(client, root)
            assert client.call("POST", "/v1/projects/other/sql", {"sql": "select 1 as n"})["rows"] == [
                {"n": 1}
            ]

        assert asyncio.run(attack()) < PATIENCE_SECONDS
        began = time.monotonic()
        assert client.call("POST", "/v1/projects/shop/sql", {"sql": "select 1 as n"})["rows"] == [{"n": 1}]
        assert time.monotonic() - began < PATIENCE_SECONDS
