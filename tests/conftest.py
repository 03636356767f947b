from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cache folder of this session; `SVC_TEST_CACHE` keeps it for the next one."""
    import os

    folder = Path(os.environ.get("SVC_TEST_CACHE") or tmp_path_factory.mktemp("svc cache ü"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder
