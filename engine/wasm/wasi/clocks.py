"""`wasi:clocks@0.2` (source: wasi:clocks 0.2.12, `package.wit`).

The monotonic clock of every run starts at 1, so it reveals nothing about the host or other runs.
"""

import time

from engine.wasm.execution.run_state import RunState
from engine.wasm.wasi.io import Pollable
from engine.wasm.wasi.registry import host

MONOTONIC = "wasi:clocks/monotonic-clock"


@host(MONOTONIC, "now")
def monotonic_now(run: RunState) -> int:
    """Return nanoseconds since the run started."""
    return run.now()


@host(MONOTONIC, "resolution")
def monotonic_resolution(run: RunState) -> int:
    """Return the clock resolution in nanoseconds."""
    return 1


@host(MONOTONIC, "subscribe-instant")
def subscribe_instant(run: RunState, when: int) -> Pollable:
    """Return a pollable that becomes ready at an instant of the run's clock."""
    return Pollable(deadline=when)


@host(MONOTONIC, "subscribe-duration")
def subscribe_duration(run: RunState, duration: int) -> Pollable:
    """Return a pollable that becomes ready after a duration in nanoseconds."""
    return Pollable(deadline=run.now() + duration)


@host("wasi:clocks/wall-clock", "now")
def wall_now(run: RunState) -> tuple[int, int]:
    """Return the Unix time as seconds and nanoseconds."""
    now = time.time_ns() + run.request.time_shift_ns
    return now // 1_000_000_000, now % 1_000_000_000


@host("wasi:clocks/wall-clock", "resolution")
def wall_resolution(run: RunState) -> tuple[int, int]:
    """Return the clock resolution as seconds and nanoseconds."""
    return 0, 1


@host("wasi:clocks/timezone", "display")
def timezone_display(run: RunState, when: tuple[int, int]) -> tuple[int, str, bool]:
    """Return UTC without daylight saving time."""
    return 0, "UTC", False


@host("wasi:clocks/timezone", "utc-offset")
def timezone_offset(run: RunState, when: tuple[int, int]) -> int:
    """Return the UTC offset, always 0."""
    return 0
