"""Domains of a resource of a service on the Board."""

import asyncio
from pathlib import Path

import pytest

from screens.project_client import ConnectionInfo, ProjectClient
from svc_tui.client import Client
from tests.screens.board.board import Board, board, select
from tests.support.screens import OpenApp
from tests.svc_tui.hosted import MANIFEST, Hosted, deploy, static_shop

pytestmark = pytest.mark.slow


def test_key_copies_the_records_of_domains_that_wait_for_dns(open_app: OpenApp, tmp_path: Path) -> None:
    root = static_shop(tmp_path / "shop")
    (root / "svc.toml").write_text(MANIFEST + 'domains = ["shop.invalid", "www.shop.invalid"]\n')
    with Hosted(tmp_path / "data") as hosted, hosted.claim() as owner:
        deploy(owner, root)
        place = ConnectionInfo("shop", "service", hosted.control)
        client = ProjectClient(place, lambda: Client(hosted.control, hosted.token))

        async def test(ui: Board) -> None:
            select(ui, "node", "web")
            await ui.shows("◌ shop.invalid", "waiting for DNS", "Y copies the DNS records to set")
            await ui.press("Y")
            await ui.until(
                lambda: "copied the DNS records of shop.invalid, www.shop.invalid" in ui.app.messages
            )
            assert ui.app.clipboard.splitlines() == [
                "CNAME  shop.invalid  apps.example",
                "CNAME  www.shop.invalid  apps.example",
            ]

        asyncio.run(board(open_app, client, test, size=(160, 48)))
