"""Classification of guest failures, from wasmtime's error and the guest's stderr."""

import re
from collections import deque
from typing import Literal

from engine.wasm.execution.run_state import EngineFailed, GuestExit, Trap

_MEMORY = re.compile(
    r"out of memory|memory allocation of \d+ bytes failed|cannot allocate memory|OutOfMemory|"
    r"allocation size overflow|unhandlable oom|bad_alloc|exceeds memory limits|"
    r"\(cabi_realloc\) Unable to realloc",
    re.IGNORECASE,
)
_ABORT = re.compile(r"Redirecting call to abort\(\)|libc\+\+abi: ")
"""Lines that the JavaScript engine prints when it ends the program."""
_GO_HEAD = re.compile(r"(?:panic|fatal error): ")
_GO_FRAME = re.compile(r"\t(?P<location>(?!runtime/)\S+\.go:\d+) ")
_RUST_HEAD = re.compile(r"thread '.*' (?:\(\d+\) )?panicked at (?P<location>.+):$")
_WSTD_PENDING = "ready list empty, therefore root task should be ready"
_NO_SLOT = re.compile(r"maximum concurrent [a-z ]*limit")
_MAX_LINES = 20
_TRAP = re.compile(r"wasm trap: (.+)")
_WASM_FRAME = re.compile(r" *\d+: +0x[0-9a-f]+ - [^!]*!(?P<function>.+?)(?:::h[0-9a-f]{16})?")
_RUNTIME = re.compile(
    r"<?(?:core|std|alloc|dlmalloc|panic_abort|wasi|wit_bindgen|wasip2)\b.*::|<|_*rust_|__|abort$|cabi_|runtime\."
)
_MAX_NAME = 200
_OUT_OF_MEMORY = "out of memory: the guest exceeded memory_limit_mb"
_GAVE_UP = "wasm `unreachable` instruction executed"
OUT_OF_BOUNDS = "the guest accessed memory out of bounds"
_MEANING = {
    _GAVE_UP: "the guest gave up (unreachable: a panic or an abort)",
    "call stack exhausted": "the guest's call stack is exhausted (endless recursion?)",
    "out of bounds memory access": f"{OUT_OF_BOUNDS} (stack overflow?)",
    "integer divide by zero": "the guest divided by zero",
}


class StderrTail:
    """The lines of stderr that may explain a failure, bounded for any amount of output.

    JavaScript prints the error last. A panic of Go or Rust starts with it; Go's location is in the stack
    trace below.
    """

    def __init__(self) -> None:
        self._last: deque[str] = deque(maxlen=_MAX_LINES)
        self._output: deque[str] = deque(maxlen=_MAX_LINES)
        self._head = ""
        self._function = ""
        self._panicked_at = ""
        self._locations: list[tuple[str, str]] = []

    def add(self, line: str) -> None:
        """Add one line."""
        if self._panicked_at:
            self._head, self._locations = f"panicked: {line}", [("", self._panicked_at)]
            self._panicked_at = ""
        elif panic := _RUST_HEAD.match(line):
            self._panicked_at = panic["location"]
        elif _GO_HEAD.match(line):
            self._head, self._locations = line, []
        elif self._head and len(self._locations) < _MAX_LINES and (frame := _GO_FRAME.match(line)):
            self._locations.append((self._function, frame["location"]))
        elif line.strip() and not line[0].isspace():
            self._function = line
            self._last.append(line)

    def add_output(self, line: str) -> None:
        """Add one line of stdout or stderr, which may be the last output."""
        in_stack_of_go = _GO_HEAD.match(self._head) is not None
        if line.strip() and not line[0].isspace() and not in_stack_of_go:
            self._output.append(line)

    def last_output(self) -> str:
        """Return the last line of stdout or stderr that does not report lack of memory; empty if none."""
        lines = (line for line in reversed(self._output) if not (_MEMORY.search(line) or _ABORT.match(line)))
        return next(lines, "")[:_MAX_NAME]

    def out_of_memory(self) -> bool:
        """Return whether a line reports lack of memory."""
        return any(_MEMORY.search(line) for line in (self._head, *self._last))

    def last_line(self) -> str:
        """Return the last line outside a stack trace, or an empty string."""
        return self._last[-1] if self._last else ""

    def panic(self) -> str:
        """Return the panic in one line, with its location if known; empty if there was no panic."""
        if not self._head:
            return ""
        if _WSTD_PENDING in self._head:
            return "the handler never answers: its future waits for an event that cannot happen"
        own_locations = [location for function, location in self._locations if function.startswith("main.")]
        locations = own_locations or [location for _, location in self._locations]
        return f"{self._head} ({locations[0]})" if locations else self._head


def classify(
    text: str | None, failure: BaseException | None, stderr: StderrTail, last_call: str = ""
) -> tuple[Literal["guest-failed", "memory-limit", "overloaded"], str]:
    """Return the outcome and a sentence that describes it.

    `text` is wasmtime's error, `failure` the exception of a host function, `stderr` the guest's output. A
    failure that the program did not report itself names `last_call` and the last output.
    """
    activity = _activity(stderr, last_call)
    if stderr.out_of_memory() or (text and _MEMORY.search(text)):
        return "memory-limit", f"{_OUT_OF_MEMORY}{activity}"
    if text and _NO_SLOT.search(text):
        return "overloaded", "the running instances use all memories and tables of the pool"
    if isinstance(failure, GuestExit):
        panic = stderr.panic()
        line = stderr.last_line()
        if panic or not line or failure.status in (1, None):
            return "guest-failed", panic or line or str(failure)
        return "guest-failed", f"{line} ({failure})"
    if isinstance(failure, EngineFailed):
        return (
            "guest-failed",
            f"the JavaScript engine ended the handler in a call that cannot be caught{activity}",
        )
    if isinstance(failure, Trap):
        return "guest-failed", f"the guest broke a rule of its host: {failure}"
    if failure is not None:
        return "guest-failed", f"a host function failed: {type(failure).__name__}"
    trap = _TRAP.search(text or "")
    if trap:
        reason = trap.group(1).strip()
        if reason == _GAVE_UP and (panic := stderr.panic()):
            return "guest-failed", panic
        meaning = _MEANING.get(reason, f"the guest trapped: {reason}")
        function = _running_function(text or "")
        return "guest-failed", f"{meaning} in {function}{activity}" if function else f"{meaning}{activity}"
    causes = [line.strip() for line in (text or "").splitlines() if line.strip()]
    return "guest-failed", f"the guest failed: {causes[-1]}" if causes else "the guest failed"


def memory_failure(stderr: StderrTail, last_call: str) -> tuple[Literal["memory-limit"], str] | None:
    """Return the outcome of a failed run whose output reports lack of memory, else None."""
    if not stderr.out_of_memory():
        return None
    return "memory-limit", f"{_OUT_OF_MEMORY}{_activity(stderr, last_call)}"


def _activity(stderr: StderrTail, last_call: str) -> str:
    activity = f"; the last call was: {last_call}" if last_call else ""
    if last_output := stderr.last_output():
        activity += f"; the last output was: {last_output}"
    return activity


def _running_function(text: str) -> str:
    """Return the innermost function of the program in wasmtime's backtrace; empty if it has no names."""
    for line in text.splitlines():
        frame = _WASM_FRAME.fullmatch(line)
        if frame is not None and not _RUNTIME.match(frame["function"]):
            return frame["function"][:_MAX_NAME]
    return ""
