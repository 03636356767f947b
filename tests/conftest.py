import os
from pathlib import Path

import pytest


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
