"""Installs the js and go toolchains for the tests: `python -m tests.toolchains.install CACHE`."""

import asyncio
import sys
from pathlib import Path

from engine.lane import ToolchainMissing
from lanes.go.lane import GoLane
from lanes.js.lane import JsLane


async def install(cache: Path) -> None:
    """Install both toolchains at the same time."""
    cache.mkdir(parents=True, exist_ok=True)
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
