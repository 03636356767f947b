import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.bucket.folder import FolderBucket
from engine.bucket.protocols import Bucket
from tests.support.buckets import Scenario, Use

BACKENDS: dict[str, Callable[[Path], Bucket]] = {"folder": FolderBucket}
"""The function that opens the bucket of a test, by backend."""


@pytest.fixture(params=BACKENDS)
def use(request: pytest.FixtureRequest, tmp_path: Path) -> Use:
    """Open the test's bucket, run a scenario on it and close it; every call uses the same bucket."""

    def use(scenario: Scenario) -> Any:
        async def main() -> Any:
            bucket = BACKENDS[request.param](tmp_path / "bucket ü 1")
            try:
                return await scenario(bucket)
            finally:
                await bucket.aclose()

        return asyncio.run(main())

    return use
