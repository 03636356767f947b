from pathlib import Path

import pytest

from tests.support.full_disk import on_small_disk, with_limited_files

PROGRAM = "tests.engine.bucket.full_disk"
pytestmark = pytest.mark.slow


def test_a_file_system_that_is_full_costs_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    on_small_disk(PROGRAM, tmp_path, "bucket", 2)


def test_files_that_may_not_grow_cost_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    with_limited_files(PROGRAM, tmp_path / "bucket")
