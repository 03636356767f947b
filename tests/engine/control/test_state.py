"""Project state over the control API: of `svc dev` and of a live deployment."""

import asyncio
from pathlib import Path

import pytest

from doors.tables.door import TablesDoor
from svc_tui.client import ApiError, Client
from tests.engine.control.developing import Shop, develop
from tests.svc_tui.hosted import Hosted, deploy

TEXT = """
[project]
name = "shop"

[resource.web]
lane = "static"
public = true
output = "site"
mounts = { "/api/*" = "api" }

[resource.api]
lane = "static"
output = "data"
"""
PLACE = "/v1/projects/shop/state"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "shop ü"
    for folder in ("site", "data/api"):
        (root / folder).mkdir(parents=True)
    (root / "svc.toml").write_text(TEXT)
    (root / "site" / "index.html").write_text("one")
    (root / "data" / "api" / "x").write_text("x")
    return root


def test_state_has_addresses_rates_mounts_and_doors(root: Path) -> None:
    async def test(shop: Shop) -> None:
        for path in ("/", "/api/x", "/api/none", "/api/x"):
            await shop.public.get(path)
        state = await shop.state()
        web, api = state["resources"]
        assert (state["project"], state["kind"]) == ("shop", "dev")
        assert state["address"] == f"http://localhost:{shop.port}/"
        assert web["address"] == f"http://web--shop.localhost:{shop.port}/" and api["address"] is None
        assert [each["state"] for each in (web, api)] == ["ready", "ready"] and web["serves"]
        assert web["build_seconds"] > 0 and web["error"] is None
        assert web["requests"] / api["requests"] == pytest.approx(4 / 3, rel=0.01)
        assert (len(web["history"]), sum(web["history"])) == (60, 4)
        assert web["p95_ms"] > 0 and (web["failures"], web["peak_memory"]) == (0, None)
        assert state["mounts"] == [
            {"resource": "web", "pattern": "/api/*", "target": "api", "requests": api["requests"]}
        ]
        found = [(door["name"], door["unit"], door["count"], door["records"]) for door in state["doors"]]
        assert found == [
            ("tables", "table", 0, None),
            ("telemetry", "record", None, 0.0),
            ("crypto", "", None, None),
            ("files", "file", 0, None),
            ("jobs", "job", 0, None),
        ]
        assert state["doors"][0] == {
            "name": "tables",
            "purpose": TablesDoor.purpose,
            "variables": ["SVC_TABLES_ENDPOINT"],
            "unit": "table",
            "count": 0,
            "bytes": 0,
            "log_bytes": 0,
            "records": None,
            "users": [],
        }
        assert (await shop.state(seconds=1))["seconds"] <= 2

    develop(root, test)


def test_state_counts_tables(root: Path) -> None:
    (root / "tables").mkdir()
    (root / "tables" / "1.sql").write_text("create table note (id integer primary key, text text);")

    async def test(shop: Shop) -> None:
        tables = (await shop.state())["doors"][0]
        assert tables["count"] == 1 and tables["bytes"] > 0

    develop(root, test)


def test_failed_build_is_reported_while_last_build_serves(root: Path) -> None:
    text = TEXT.replace(
        'lane = "static"\noutput = "data"', 'lane = "static"\nbuild = "true"\noutput = "data"'
    )
    (root / "svc.toml").write_text(text)

    async def test(shop: Shop) -> None:
        (root / "svc.toml").write_text(text.replace('build = "true"', 'build = "echo no >&2; exit 3"'))
        api = await shop.until("api", "failed")
        assert api["serves"] and "exit 3" in api["error"]["message"] and api["error"]["output"] == "no"
        (root / "svc.toml").write_text(text)
        api = await shop.until("api", "ready")
        assert api["error"] is None

    develop(root, test)


def test_new_resource_is_building_until_first_build_ends(root: Path) -> None:
    async def test(shop: Shop) -> None:
        gate = root.parent / "gate"
        more = '\n[resource.late]\nlane = "static"\nbuild = "until [ -e ../gate ]; do sleep 0.02; done"\n'
        (root / "svc.toml").write_text(TEXT + more + 'output = "site"\n')
        late = await shop.until("late", "building")
        assert (late["serves"], late["build_seconds"], late["error"]) == (False, None, None)
        gate.touch()
        assert (await shop.until("late", "ready"))["serves"]

    develop(root, test)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_doors_list_calling_resources(root: Path, cache: Path, workers: int) -> None:
    (root / "svc.toml").write_text(
        TEXT.replace('lane = "static"\noutput = "data"', 'lane = "js"\nworkdir = "data"')
    )
    (root / "data" / "index.js").write_text(
        "import { json, log, tables } from '@svc/guest'\n"
        "export default { async fetch() {\n"
        "  log.info('hello')\n"
        "  return json(await tables.query`select 1 as n`)\n} }\n"
    )

    async def test(shop: Shop) -> None:
        for _ in range(3):
            assert (await shop.public.get("/api/x")).json() == [{"n": 1}]
        while True:
            tables, telemetry, *_ = (await shop.state())["doors"]
            if tables["users"] == [{"resource": "api", "calls": 3}] and telemetry["records"] > 0:
                break
            await asyncio.sleep(0.05)
        assert [user["resource"] for user in telemetry["users"]] == ["api"]

    develop(root, test, cache, workers)


def test_service_state_describes_live_deployment(root: Path, tmp_path: Path) -> None:
    with Hosted(tmp_path / "data ü") as hosted, hosted.claim() as client:
        with pytest.raises(ApiError, match="project shop not found"):
            client.call("GET", PLACE)
        deploy(client, root)
        assert hosted.get("/api/x").text == "x"
        _is_live(client)


def _is_live(client: Client) -> None:
    state = client.call("GET", PLACE)
    web, api = state["resources"]
    assert (state["kind"], state["address"]) == ("service", "http://shop.apps.example:8080/")
    assert web["address"] == "http://web--shop.apps.example:8080/"
    assert [each["state"] for each in (web, api)] == ["ready", "ready"]
    assert web["requests"] > 0 and web["build_seconds"] is None
    assert state["mounts"][0]["requests"] == web["requests"]
