import gc
import os
import ssl
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import certifi
import pytest
from httpx._config import DEFAULT_TIMEOUT_CONFIG
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

import svc_tui.composition  # noqa: F401 - registers the lanes with the manifest
from tests.support.examples import FUZZ
from tests.support.go_cache import go_build_cache

TOGETHER = ("tests/conformance/", "tests/engine/fleet/")
"""Folders whose tests share state."""


class Files(LoadFileScheduling):
    """Assigns whole files to workers, so that module fixtures are set up once."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return scope(nodeid)


def scope(nodeid: str) -> str:
    """Return the file of a test, or the folder whose tests share state."""
    return next(filter(nodeid.startswith, TOGETHER), nodeid.partition("::")[0])


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fuzz", type=int, default=0, help="factor for the number of generated examples")


def pytest_configure(config: pytest.Config) -> None:
    """Generate fewer examples for `make check`, and disable deadlines that depend on the machine's load."""
    patient = settings(settings.default, deadline=20_000, suppress_health_check=[HealthCheck.too_slow])
    factor = config.getoption("fuzz")
    settings.register_profile("whole", patient)
    settings.register_profile("fast", patient, max_examples=patient.max_examples // 5)
    settings.register_profile(
        FUZZ, patient, deadline=None, max_examples=patient.max_examples * max(factor, 1)
    )
    fast = "fast" if config.getoption("markexpr").startswith("not slow") else "whole"
    settings.load_profile(FUZZ if factor else fast)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Files:
    """Return the scheduler that assigns whole files to workers."""
    return Files(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return two workers per processor: many tests wait for other processes."""
    return 2 * (os.cpu_count() or 1)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run long files first, so that workers finish at about the same time."""
    if hasattr(config, "workerinput"):
        seconds: Counter[str] = Counter()
        for item in items:
            slow = item.get_closest_marker("slow")
            seconds[scope(item.nodeid)] += slow.kwargs.get("seconds", 4) if slow else 0.1
        items.sort(key=lambda item: -seconds[scope(item.nodeid)])


def pytest_collection_finish() -> None:
    """Exclude collected tests from garbage collections, which cost a tenth of the CPU time otherwise."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)


@pytest.fixture
def anyio_backend() -> str:
    """The backend of tests marked `anyio`."""
    return "asyncio"


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toolchain cache: `SVC_TEST_CACHE`, or a folder of this session."""
    folder = Path(os.environ.get("SVC_TEST_CACHE") or tmp_path_factory.mktemp("svc cache ü"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="session", autouse=True)
def go_cache(cache: Path) -> Iterator[None]:
    """Set one build cache of Go for all tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GOCACHE", str(go_build_cache(cache)))
        yield


@pytest.fixture(scope="session", autouse=True)
def shared_certificates() -> Iterator[None]:
    """Load the certificates that httpx trusts once: loading takes longer than a request on loopback."""
    create = ssl.create_default_context
    shared = create(cafile=certifi.where())

    def create_default_context(*args: Any, **options: Any) -> ssl.SSLContext:
        return create(*args, **options) if args or options != {"cafile": certifi.where()} else shared

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl, "create_default_context", create_default_context)
        yield


@pytest.fixture(scope="session", autouse=True)
def patient_requests() -> Iterator[None]:
    """Set 60 s as the timeout of httpx: its default of 5 s is short for a busy machine."""
    with pytest.MonkeyPatch.context() as patch:
        for phase in ("connect", "read", "write", "pool"):
            patch.setattr(DEFAULT_TIMEOUT_CONFIG, phase, 60.0)
        yield


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
