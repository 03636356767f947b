from pathlib import Path

import pytest

from tests.support.full_disk import on_small_disk, with_limited_files

PROGRAM = "tests.doors.tables.full_disk"
pytestmark = pytest.mark.slow


def test_a_file_system_that_is_full_costs_no_row_that_was_acknowledged(tmp_path: Path) -> None:
    assert "storage-full" in on_small_disk(PROGRAM, tmp_path, "shop", 4)


def test_a_file_that_may_not_grow_costs_no_row_that_was_acknowledged(tmp_path: Path) -> None:
    with_limited_files(PROGRAM, tmp_path / "shop")
