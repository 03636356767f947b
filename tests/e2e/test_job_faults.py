"""A short run of `make job-faults`."""

from contextlib import closing
from pathlib import Path

import pytest

from tests.faults.job_kills import Shop, Witness, run

pytestmark = [pytest.mark.nightly, pytest.mark.slow(seconds=60)]
KILLS = 20


def test_jobs_committed_with_rows_survive_kills_of_the_service(tmp_path: Path, cache: Path) -> None:
    with closing(Witness()) as witness, closing(Shop(tmp_path, cache, witness)) as shop:
        found = run(shop, KILLS, 41, print)
    faults = {name for name, count in found.items() if count} - {"acked", "jobs", "twice"}
    assert not faults and found["jobs"] >= found["acked"] > 0, found
