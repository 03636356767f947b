from pathlib import Path

import pytest

from tests.support.full_disk import on_small_disk, with_limited_files

PROGRAM = "tests.engine.bucket.full_disk"
pytestmark = pytest.mark.slow


def test_full_file_system_loses_no_acknowledged_write(tmp_path: Path) -> None:
    on_small_disk(PROGRAM, tmp_path, "bucket", 2)


def test_file_size_limit_loses_no_acknowledged_write(tmp_path: Path) -> None:
    with_limited_files(PROGRAM, tmp_path / "bucket")
