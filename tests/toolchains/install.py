"""Installs the js and go toolchains for the tests: `python -m tests.toolchains.install CACHE`."""

import asyncio
import os
import sys
from pathlib import Path

from engine.lane import ToolchainMissing
from lanes.go.lane import GoLane
from lanes.js.lane import JsLane
from tests.support.go_cache import go_build_cache


async def install(cache: Path) -> None:
    """Install both toolchains at the same time; Go's packages enter the build cache of the tests."""
    cache.mkdir(parents=True, exist_ok=True)
    os.environ["GOCACHE"] = str(go_build_cache(cache))
    results = await asyncio.gather(
        *(lane.install(cache, lambda line: None) for lane in (JsLane(), GoLane())), return_exceptions=True
    )
    for error in results:
        if isinstance(error, ToolchainMissing):
            print(f"  {error}", file=sys.stderr)
        elif error is not None:
            raise error


if __name__ == "__main__":
    asyncio.run(install(Path(sys.argv[1])))
