import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

import svc_tui.composition  # noqa: F401 - registers the lanes with the manifest

TOGETHER = ("tests/conformance/",)
"""Folders whose tests share what they saw."""


class Files(LoadFileScheduling):
    """Gives workers whole files, so that what a file sets up is set up once, in the order of the tests."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return next(filter(nodeid.startswith, TOGETHER), super()._split_scope(nodeid))


def pytest_configure(config: pytest.Config) -> None:
    """Make up fewer examples where slow tests are left out; let no load of the machine fail one."""
    patient = settings(settings.default, deadline=2000, suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile("whole", patient)
    settings.register_profile("fast", patient, max_examples=patient.max_examples // 5)
    settings.load_profile("fast" if config.getoption("markexpr") == "not slow" else "whole")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Files:
    """Say how tests are dealt out when there are several workers."""
    return Files(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Have workers begin with the long files, so that they end at about the same time."""
    if hasattr(config, "workerinput"):
        slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
        all_ = Counter(item.path for item in items)
        items.sort(key=lambda item: (-slow[item.path], -all_[item.path]))


@pytest.fixture
def anyio_backend() -> str:
    """Where tests marked `anyio` run."""
    return "asyncio"


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cache folder of this session; `SVC_TEST_CACHE` keeps it for the next one."""
    folder = Path(os.environ.get("SVC_TEST_CACHE") or tmp_path_factory.mktemp("svc cache ü"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def path_without_node(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A PATH with every program of this one's but node's."""
    folder = tmp_path_factory.mktemp("path")
    for place in map(Path, os.environ["PATH"].split(os.pathsep)):
        for program in place.iterdir() if place.is_dir() else ():
            link = folder / program.name
            if program.name not in {"node", "nodejs", "npm", "npx", "corepack"} and not link.is_symlink():
                link.symlink_to(program)
    return str(folder)
