from pathlib import Path

import pytest

from bench.crash import crash

pytestmark = pytest.mark.slow


def test_acknowledged_rows_survive_killed_process(tmp_path: Path) -> None:
    outcome = crash(tmp_path, 6)
    assert outcome.acked > 0
    assert (outcome.missing, outcome.half, outcome.damaged) == (0, 0, False)
