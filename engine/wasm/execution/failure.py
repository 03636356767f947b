"""Outcomes of runs: failures by wasmtime's error and the guest's stderr, and sentences for the owner."""

import re
from collections import deque
from collections.abc import Mapping
from typing import Literal

from engine.wasm.execution.run_state import EngineFailed, GuestExit, Outcome, RunState, Trap

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
_PYTHON_HEAD = "Traceback (most recent call last):"
_PYTHON_PANIC = "panicked: Python function threw an unexpected exception"
"""The panic of componentize-py's runtime after it has printed the traceback."""
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
        if self._head == _PYTHON_PANIC and (exception := self._exception()):
            return exception
        own_locations = [location for function, location in self._locations if function.startswith("main.")]
        locations = own_locations or [location for _, location in self._locations]
        return f"{self._head} ({locations[0]})" if locations else self._head

    def _exception(self) -> str:
        """Return the first line of the last exception that Python reported; empty if there was none."""
        pairs = zip(self._last, list(self._last)[1:], strict=False)
        return next((line for head, line in reversed(list(pairs)) if head == _PYTHON_HEAD), "")


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


UNANSWERED_LINE = "Warning: JS event loop terminated without completing the request."
"""The line that StarlingMonkey prints when a handler waits for a promise that nothing can settle.

It then ends the response as if it were complete, or breaks a rule of the streams.
"""
UNANSWERED_HEAD = "the handler never answers: fetch() returned a promise that nothing can settle"
UNANSWERED_BODY = "the response never ends: its stream waits for a promise that nothing can settle"
STOP_DETAILS: Mapping[str, str] = {
    "run-limit": "the run took longer than run_limit_secs = {0}",
    "memory-limit": "the service ran out of memory: the run took {2} MiB, and usually takes {3} MiB",
    "body-too-large": "the request body is larger than {1} bytes",
    "client-gone": "the client disconnected",
    "stopping": "the service is stopping",
    "unknown-host": "the project was removed",
}
"""Formats of the details of a stopped run, by outcome.

Their values are the run limit in s, the body limit in bytes, the MiB that the run took, and its usual MiB.
"""
_ABORTED = "the guest aborted the response"
_MAX_REASON = 500


def outcome_of_end(
    run: RunState, text: str | None, stderr: StderrTail, *, complete: bool, memory: int
) -> tuple[Outcome, str]:
    """Return the outcome and detail of a run that was not stopped.

    `text` is wasmtime's error, if any. `complete` is whether the whole response was sent. `memory` is the
    memory in bytes that the guest took.
    """
    if isinstance(run.failure, GuestExit) and run.failure.status == 0:
        if complete:
            return "ok", ""
        if run.head is not None and run.head.body.broken == "unfinished":
            return "aborted", _ABORTED
    body_error = run.head.body.broken if run.head is not None else None
    has_other_length = isinstance(body_error, tuple) and body_error[0] == "HTTP-response-body-size"
    if text is not None and (not has_other_length or run.failure is not None or stderr.panic()):
        outcome, detail = classify(text, run.failure, stderr, run.last_call)
        may_lack = isinstance(run.failure, EngineFailed) or detail.startswith(OUT_OF_BOUNDS)
        return outcome, detail + (_lack(run, memory) if may_lack else "")
    if run.refused == ("connection-terminated", None):
        return "aborted", _ABORTED
    if run.refused is not None:
        code, reason = run.refused
        text = f": {reason[:_MAX_REASON]}" if isinstance(reason, str) else ""
        return "guest-failed", f"the guest answered with the error {code}{text}"
    if run.head is None:
        return memory_failure(stderr, run.last_call) or ("guest-failed", "the guest returned no response")
    if complete:
        return "ok", ""
    problem = "the guest left its response body unfinished"
    if isinstance(body_error, tuple) and has_other_length:
        problem = f"the guest announced another content-length than the {body_error[1]} bytes it wrote"
    return memory_failure(stderr, run.last_call) or ("guest-failed", problem)


def outcome_of_endless_wait(run: RunState, stderr: StderrTail, memory: int) -> tuple[Outcome, str]:
    """Return the outcome and detail of a run that waits for a promise that nothing can settle.

    `memory` is the memory in bytes that the guest took.
    """
    detail = UNANSWERED_HEAD if run.head is None else UNANSWERED_BODY
    return memory_failure(stderr, run.last_call) or ("guest-failed", detail + _lack(run, memory))


def _lack(run: RunState, memory: int) -> str:
    """Return a note if an allocation may have failed, which the JavaScript engine reports in no other way."""
    if memory <= run.memory_limit // 2:
        return ""
    sizes = f"{memory >> 20} of {run.memory_limit >> 20} MiB of memory"
    return f"; {sizes} were taken, so an allocation may have failed"
