"""Outcomes of runs, and the sentences that describe them to the owner of the project."""

from collections.abc import Mapping
from typing import Any

from engine.wasm.execution.failure import OUT_OF_BOUNDS, StderrTail, classify, memory_failure
from engine.wasm.execution.request import Outcome
from engine.wasm.execution.run_state import EngineFailed, GuestExit, RunState

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

    A failure is `unavailable` if a Door was, because most guests do not expect that.
    `text` is wasmtime's error, if any. `complete` is whether the whole response was sent. `memory` is the
    memory in bytes that the guest took.
    """
    outcome, detail = _outcome_of_end(run, text, stderr, complete=complete, memory=memory)
    return ("unavailable" if outcome == "guest-failed" and run.door_unavailable else outcome), detail


def _outcome_of_end(
    run: RunState, text: str | None, stderr: StderrTail, *, complete: bool, memory: int
) -> tuple[Outcome, str]:
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
    if not complete:
        return memory_failure(stderr, run.last_call) or ("guest-failed", _broken(body_error))
    return "ok", ""


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


def _broken(why: Any) -> str:
    if isinstance(why, tuple) and why[0] == "HTTP-response-body-size":
        return f"the guest announced another content-length than the {why[1]} bytes it wrote"
    return "the guest left its response body unfinished"
