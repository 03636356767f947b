from pathlib import Path

import pytest

from tests.support.full_disk import on_small_disk, with_limited_files

PROGRAM = "tests.doors.tables.full_disk_program"
pytestmark = pytest.mark.slow


def test_full_file_system_loses_no_acknowledged_row(tmp_path: Path) -> None:
    assert "storage-full" in on_small_disk(PROGRAM, tmp_path, "shop", 4)


def test_file_size_limit_loses_no_acknowledged_row(tmp_path: Path) -> None:
    with_limited_files(PROGRAM, tmp_path / "shop")
