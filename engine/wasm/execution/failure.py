"""Tells apart why a guest failed, from what the library says and the guest printed."""

import re
from collections import deque
from typing import Literal

from engine.wasm.execution.run_state import GuestExit, Trap

_MEMORY = re.compile(
    r"out of memory|memory allocation of \d+ bytes failed|cannot allocate memory|OutOfMemory|"
    r"allocation size overflow|exceeds memory limits|\(cabi_realloc\) Unable to realloc",
    re.IGNORECASE,
)
_GO_HEAD = re.compile(r"(?:panic|fatal error): ")
_GO_FRAME = re.compile(r"\t(?P<place>(?!runtime/)\S+\.go:\d+) ")
_RUST_HEAD = re.compile(r"thread '.*' (?:\(\d+\) )?panicked at (?P<place>.+):$")
_NO_SLOT = re.compile(r"maximum concurrent [a-z ]*limit")
_MAX_LINES = 20
_TRAP = re.compile(r"wasm trap: (.+)")
_GAVE_UP = "wasm `unreachable` instruction executed"
_MEANING = {
    _GAVE_UP: "the guest gave up (unreachable: a panic or an abort)",
    "call stack exhausted": "the guest's call stack is exhausted (endless recursion?)",
    "out of bounds memory access": "the guest accessed memory out of bounds",
    "integer divide by zero": "the guest divided by zero",
}


class StderrTail:
    """What a guest printed on stderr that may tell why it failed, of however much it printed.

    JavaScript ends with the error. A panic of Go or Rust begins with it; Go's place is in the stack below.
    """

    def __init__(self) -> None:
        self._last: deque[str] = deque(maxlen=_MAX_LINES)
        self._head = ""
        self._function = ""
        self._panicked_at = ""
        self._places: list[tuple[str, str]] = []

    def add(self, line: str) -> None:
        """Take one line."""
        if self._panicked_at:
            self._head, self._places = f"panicked: {line}", [("", self._panicked_at)]
            self._panicked_at = ""
        elif panic := _RUST_HEAD.match(line):
            self._panicked_at = panic["place"]
        elif _GO_HEAD.match(line):
            self._head, self._places = line, []
        elif self._head and len(self._places) < _MAX_LINES and (frame := _GO_FRAME.match(line)):
            self._places.append((self._function, frame["place"]))
        elif line.strip() and not line[0].isspace():
            self._function = line
            self._last.append(line)

    def out_of_memory(self) -> bool:
        """Whether it complained of too little memory."""
        return any(_MEMORY.search(line) for line in (self._head, *self._last))

    def last_line(self) -> str:
        """Return the last line that is not part of a stack, or nothing."""
        return self._last[-1] if self._last else ""

    def panic(self) -> str:
        """Return the panic in a line, with its place where one is known; nothing when there was none."""
        if not self._head:
            return ""
        own = [place for function, place in self._places if function.startswith("main.")]
        found = own or [place for _, place in self._places]
        return f"{self._head} ({found[0]})" if found else self._head


def classify(
    text: str | None, failure: BaseException | None, stderr: StderrTail
) -> tuple[Literal["guest-failed", "memory-limit", "overloaded"], str]:
    """Return outcome and a sentence that says what happened.

    `text` is the library's error, `failure` what a host function raised, `complaint` what the guest printed.
    """
    if stderr.out_of_memory() or (text and _MEMORY.search(text)):
        return "memory-limit", "the guest needed more memory than memory_limit_mb allows"
    if text and _NO_SLOT.search(text):
        return "overloaded", "the instances under way have as many memories and tables as there is room for"
    if isinstance(failure, GuestExit):
        return "guest-failed", stderr.panic() or stderr.last_line() or str(failure)
    if isinstance(failure, Trap):
        return "guest-failed", f"the guest broke a rule of its host: {failure}"
    if failure is not None:
        return "guest-failed", f"a host function failed: {type(failure).__name__}"
    found = _TRAP.search(text or "")
    if found:
        reason = found.group(1).strip()
        if reason == _GAVE_UP and (said := stderr.panic()):
            return "guest-failed", said
        return "guest-failed", _MEANING.get(reason, f"the guest trapped: {reason}")
    causes = [line.strip() for line in (text or "").splitlines() if line.strip()]
    return "guest-failed", f"the guest failed: {causes[-1]}" if causes else "the guest failed"
