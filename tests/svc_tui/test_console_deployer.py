"""Deploys by the Console: progress and cancellation."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from doors.tables.sqlite.owner import open_for_writing
from engine.errors import SvcError
from screens.board.deployment import DeployLog, live_addresses
from svc_tui.client.credentials import Credentials
from svc_tui.console.deployer import ConsoleDeployer, ProjectFiles
from svc_tui.deploy.format import DeployProgress, differences, rollback_text
from tests.svc_tui.hosted import MANIFEST, Hosted, static_shop

pytestmark = pytest.mark.slow


@pytest.fixture
def hosted(tmp_path: Path) -> Iterator[Hosted]:
    with Hosted(tmp_path / "data") as hosted:
        hosted.claim().close()
        yield hosted


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return static_shop(tmp_path / "shop")


def deployer_of(hosted: Hosted, root: Path, linked: list[str]) -> ConsoleDeployer:
    login = Credentials(hosted.control, hosted.control, token=hosted.token)
    return ConsoleDeployer("shop", lambda: login, ProjectFiles(root, root.parent / "cache", linked.append))


def test_deploy_plans_runs_and_links_service(hosted: Hosted, root: Path) -> None:
    linked: list[str] = []
    deployer, events = deployer_of(hosted, root, linked), list[DeployProgress]()
    plan = deployer.plan(events.append)
    log = DeployLog(plan=plan)
    assert (plan["live"], log.up_to_date, log.needs_approval) == (None, False, False)
    assert plan["missing"] and plan["size"] > 0 and linked == []
    live = deployer.run(events.append, allow=False, message="the first")
    assert [(each["resource"], each["url"]) for each in live_addresses(live)] == [
        ("shop", "http://shop.apps.example:8080"),
        ("web", "http://web--shop.apps.example:8080"),
    ]
    steps = [each.step for each in events]
    assert (
        steps == sorted(steps, key=["build", "upload", "policy", "activate"].index) and len(set(steps)) == 4
    )
    assert hosted.get().text == "one" and linked == [hosted.control]
    (deployment,) = deployer.call("GET", "/deployments")["deployments"]
    assert deployment == live["deployment"]
    assert (deployment["by"], deployment["message"], deployment["live"]) == ("ann", "the first", True)
    assert DeployLog(plan=deployer.plan(events.append)).up_to_date


def test_plan_warns_of_tables_without_a_migration(hosted: Hosted, root: Path) -> None:
    with open_for_writing(root / ".svc") as connection:
        connection.execute("create table bookings (id integer primary key)")
    (warning,) = deployer_of(hosted, root, []).plan(lambda _: None)["warnings"]
    assert "table bookings" in warning["message"] and "svc tables migration NAME" in warning["hint"]


def test_plan_without_the_value_of_a_secret_raises(hosted: Hosted, root: Path) -> None:
    (root / "svc.toml").write_text(MANIFEST + 'secrets = ["KEY"]\n')
    with pytest.raises(SvcError, match="shop needs secrets without a value on the service: KEY"):
        deployer_of(hosted, root, []).plan(lambda _: None)


def test_run_without_plan_raises(hosted: Hosted, root: Path) -> None:
    with pytest.raises(SvcError, match="the deploy has no plan"):
        deployer_of(hosted, root, []).run(lambda _: None, allow=False, message="")


def test_build_can_be_canceled_and_repeated(hosted: Hosted, root: Path) -> None:
    deployer = deployer_of(hosted, root, [])
    assert not deployer.cancel()
    (root / "svc.toml").write_text(MANIFEST + 'build = "touch begun && sleep 600"\n')
    raised: list[SvcError] = []

    def plan() -> None:
        try:
            deployer.plan(lambda _: None)
        except SvcError as error:
            raised.append(error)

    planning = threading.Thread(target=plan)
    planning.start()
    while not (root / "begun").exists():
        planning.join(0.02)
        assert planning.is_alive()
    assert deployer.cancel()
    planning.join(60)
    assert [error.code for error in raised] == ["canceled"]
    (root / "svc.toml").write_text(MANIFEST)
    assert deployer.plan(lambda _: None)["missing"]


def test_canceled_upload_activates_nothing(hosted: Hosted, root: Path) -> None:
    deployer = deployer_of(hosted, root, [])
    deployer.plan(lambda _: None)

    def cancel_upload(progress: DeployProgress) -> None:
        if progress.step == "upload":
            deployer.cancel()

    with pytest.raises(SvcError, match="the deploy was canceled"):
        deployer.run(cancel_upload, allow=False, message="")
    assert deployer.call("GET", "/deployments")["deployments"] == [] and hosted.get().status_code == 404


def test_rollback_plan_shows_changes(hosted: Hosted, root: Path) -> None:
    deployer = deployer_of(hosted, root, [])
    deployer.plan(lambda _: None)
    first = deployer.run(lambda _: None, allow=False, message="")["deployment"]["id"]
    (root / "site" / "index.html").write_text("two")
    deployer.plan(lambda _: None)
    second = deployer.run(lambda _: None, allow=False, message="")["deployment"]["id"]
    plan = deployer.call("GET", f"/deployments/{first}/rollback")
    assert plan["live"] == second
    assert [(each.mark, each.resource) for each in differences(plan["changes"])] == [("~", "web")]
    body = {"deployment": first, "revision": plan["revision"], "message": "two is bad"}
    assert deployer.call("POST", "/rollback", body)["deployment"]["id"] == first
    assert hosted.get().text == "one"
    history = deployer.call("GET", "/deployments")
    assert [each["id"] for each in history["deployments"] if each["live"]] == [first]
    assert rollback_text(history["activations"], first).endswith("by ann: two is bad")
