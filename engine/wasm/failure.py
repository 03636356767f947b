"""Tells apart why a guest failed, from what the library says and the guest printed."""

import re
from typing import Literal

from engine.wasm.run import GuestExit, Trap

_MEMORY = re.compile(
    r"out of memory|memory allocation of \d+ bytes failed|cannot allocate memory|OutOfMemory|"
    r"allocation size overflow|exceeds memory limits",
    re.IGNORECASE,
)
_TRAP = re.compile(r"wasm trap: (.+)")
_MEANING = {
    "wasm `unreachable` instruction executed": "the guest gave up (unreachable: a panic or an abort)",
    "call stack exhausted": "the guest's call stack is exhausted (endless recursion?)",
    "out of bounds memory access": "the guest accessed memory out of bounds",
    "integer divide by zero": "the guest divided by zero",
}


def classify(
    text: str | None, failure: BaseException | None, printed: list[str]
) -> tuple[Literal["guest-failed", "memory-limit"], str]:
    """Return outcome (`guest-failed` or `memory-limit`) and a sentence that says what happened.

    `text` is the library's error, `failure` what a host function raised, `printed` the
    last lines of the run's stderr that are not stack frames.
    """
    if any(_MEMORY.search(line) for line in printed) or (text and _MEMORY.search(text)):
        return "memory-limit", "the guest needed more memory than memory_limit_mb allows"
    if isinstance(failure, GuestExit):
        return "guest-failed", printed[-1] if printed else str(failure)
    if isinstance(failure, Trap):
        return "guest-failed", f"the guest broke a rule of its host: {failure}"
    if failure is not None:
        return "guest-failed", f"a host function failed: {type(failure).__name__}"
    found = _TRAP.search(text or "")
    if found:
        reason = found.group(1).strip()
        return "guest-failed", _MEANING.get(reason, f"the guest trapped: {reason}")
    return "guest-failed", (text or "the guest failed").splitlines()[0]
