from pathlib import Path

import pytest

from bench.crash import crash

pytestmark = pytest.mark.slow


def test_what_was_acknowledged_outlives_a_process_that_is_killed_in_the_middle(tmp_path: Path) -> None:
    outcome = crash(tmp_path, 6)
    assert outcome.acked > 0
    assert (outcome.missing, outcome.half, outcome.damaged) == (0, 0, False)
