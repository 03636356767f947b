"""Deploys by the Console: progress and cancellation."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.errors import SvcError
from screens.board.deploy_protocol import Progress
from svc_tui.client.credentials import Credentials
from svc_tui.console.deployer import ConsoleDeployer, DeployCancelled, ProjectFiles
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


def desk_of(hosted: Hosted, root: Path, belongs: list[str]) -> ConsoleDeployer:
    login = Credentials(hosted.control, hosted.control, hosted.token)
    return ConsoleDeployer("shop", lambda: login, ProjectFiles(root, root.parent / "cache", belongs.append))


def test_deploy_plans_runs_and_links_service(hosted: Hosted, root: Path) -> None:
    belongs: list[str] = []
    desk, told = desk_of(hosted, root, belongs), list[Progress]()
    plan = desk.plan(told.append)
    assert (plan.live, plan.needless, plan.grave) == (None, False, False)
    assert plan.files > 0 and plan.size > 0 and belongs == []
    live = desk.run(told.append, allow=False, message="the first")
    assert [each.place for each in live.addresses] == ["http://web--shop.apps.example:8080"]
    steps = [each.step for each in told]
    assert (
        steps == sorted(steps, key=["build", "upload", "policy", "activate"].index) and len(set(steps)) == 4
    )
    assert hosted.get().text == "one" and belongs == [hosted.control]
    (kept,) = desk.history()
    assert (kept.id, kept.by, kept.message, kept.live) == (live.deployment, "ann", "the first", True)
    assert desk.plan(told.append).needless


def test_run_without_plan_raises(hosted: Hosted, root: Path) -> None:
    with pytest.raises(SvcError, match="the deploy has no plan"):
        desk_of(hosted, root, []).run(lambda _: None, allow=False, message="")


def test_build_can_be_cancelled_and_repeated(hosted: Hosted, root: Path) -> None:
    desk = desk_of(hosted, root, [])
    assert not desk.cancel()
    (root / "svc.toml").write_text(MANIFEST + 'build = "touch begun && sleep 600"\n')
    raised: list[BaseException] = []

    def plan() -> None:
        try:
            desk.plan(lambda _: None)
        except SvcError as error:
            raised.append(error)

    planning = threading.Thread(target=plan)
    planning.start()
    while not (root / "begun").exists():
        planning.join(0.02)
        assert planning.is_alive()
    assert desk.cancel()
    planning.join(60)
    assert [type(error) for error in raised] == [DeployCancelled]
    (root / "svc.toml").write_text(MANIFEST)
    assert desk.plan(lambda _: None).files > 0


def test_cancelled_upload_activates_nothing(hosted: Hosted, root: Path) -> None:
    desk = desk_of(hosted, root, [])
    desk.plan(lambda _: None)

    def hear(progress: Progress) -> None:
        if progress.step == "upload":
            desk.cancel()

    with pytest.raises(DeployCancelled):
        desk.run(hear, allow=False, message="")
    assert list(desk.history()) == [] and hosted.get().status_code == 404


def test_rollback_plan_shows_changes(hosted: Hosted, root: Path) -> None:
    desk = desk_of(hosted, root, [])
    desk.plan(lambda _: None)
    first = desk.run(lambda _: None, allow=False, message="")
    (root / "site" / "index.html").write_text("two")
    desk.plan(lambda _: None)
    second = desk.run(lambda _: None, allow=False, message="")
    plan = desk.rollback_plan(first.deployment)
    assert (plan.deployment, plan.live) == (first.deployment, second.deployment)
    assert [(each.mark, each.resource) for each in plan.differences] == [("~", "web")]
    assert desk.rollback(plan, "two is bad").deployment == first.deployment
    assert hosted.get().text == "one"
    live = next(each for each in desk.history() if each.live)
    assert live.id == first.deployment and live.back.endswith("by ann: two is bad")
