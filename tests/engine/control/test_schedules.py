"""Schedules over the control API of `svc dev`: their list, runs on request, pauses, and the state."""

from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from tests.engine.control.developing import Shop, develop
from tests.engine.wasm.text_guest import component

MANIFEST = """
[project]
name = "shop"

[resource.worker]
lane = "rust"
build = "cp made.bin worker.wasm"
output = "worker.wasm"
schedules = { "/hourly" = { at = "0 3 * * *", catch_up = true } }
timezone = "Europe/Zurich"
"""
HOURLY = {"resource": "worker", "path": "/hourly"}


def test_schedules_in_development_run_on_request_only(tmp_path: Path, cache: Path) -> None:
    root = tmp_path / "shop"
    root.mkdir()
    (root / "svc.toml").write_text(MANIFEST)
    (root / "made.bin").write_bytes(component())

    async def test(shop: Shop) -> None:
        listed = await shop.call("GET", "/schedules")
        (schedule,) = listed["schedules"]
        assert not listed["active"] and schedule["last"] is None and not schedule["paused"]
        assert (schedule["at"], schedule["timezone"]) == ("0 3 * * *", "Europe/Zurich")
        local = datetime.fromisoformat(schedule["next"]).astimezone(ZoneInfo("Europe/Zurich"))
        assert (local.hour, local.minute) == (3, 0)
        result = await shop.call("POST", "/schedules/run", json=HOURLY)
        assert (result["state"], result["status"]) == ("succeeded", 200)
        paused = await shop.call("PUT", "/schedules/paused", json=HOURLY | {"paused": True})
        (schedule,) = paused["schedules"]
        assert schedule["paused"] and schedule["next"] is None and schedule["last"] == result
        (worker,) = (await shop.state())["resources"]
        assert worker["schedules"] == [schedule]
        await shop.call("POST", "/schedules/run", 404, json=HOURLY | {"path": "/x"})
        request = f"/v1/projects/shop/requests/{result['request']}"
        while (await shop.control.get(request)).status_code == 404:
            pass  # It is written in batches.
        again = await shop.call("POST", f"/requests/{result['request']}/replay")
        assert again["response"]["status"] == 200

    async def after_restart(shop: Shop) -> None:
        (schedule,) = (await shop.call("GET", "/schedules"))["schedules"]
        assert schedule["paused"] and schedule["last"]["state"] == "succeeded"

    develop(root, test, cache)
    develop(root, after_restart, cache)
