"""Alerts of a service in its Console: each is shown once."""

import asyncio
from pathlib import Path

import pytest

from svc_tui.client import ApiError
from svc_tui.client.credentials import Credentials
from svc_tui.console.app import Console
from svc_tui.console.engine import ServiceProject
from tests.support.screens import idle, until
from tests.svc_tui.hosted import MANIFEST, Hosted, deploy, static_shop

pytestmark = pytest.mark.slow


def test_alerts_of_the_project_are_shown_once(tmp_path: Path) -> None:
    shop, other = static_shop(tmp_path / "shop"), static_shop(tmp_path / "other")
    with Hosted(tmp_path / "data") as hosted, hosted.claim() as owner:
        for root, name in ((shop, "shop"), (other, "other")):
            manifest = MANIFEST.replace("shop", name)
            (root / "svc.toml").write_text(manifest)
            deploy(owner, root)
            (root / "svc.toml").write_text(manifest.replace("\n\n", '\ncheck = "/missing"\n\n', 1))
            with pytest.raises(ApiError):
                deploy(owner, root)

        async def scenario() -> None:
            engine = ServiceProject(Credentials(hosted.control, hosted.control, token=hosted.token), "shop")
            app = Console(engine, None)
            async with app.run_test() as pilot:
                await until(pilot, lambda: app._client.state == "live")
                for _ in range(3):
                    app._poll_alerts()
                    await idle(pilot)
                lines = ["".join(text for text, _ in line) for line in app._client.activity.lines()]
                shown = [line for line in lines if "alert:" in line]
                assert len(shown) == 1 and "alert: a deploy of shop failed: health check" in shown[0]

        asyncio.run(scenario())
