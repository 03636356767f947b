import pytest

from engine.wasm.execution.failure import StderrTail, classify
from engine.wasm.execution.run_state import EngineFailed, GuestExit

TRAP = "error while executing\nwasm trap: wasm `unreachable` instruction executed"


def stderr_tail(text: str) -> StderrTail:
    tail = StderrTail()
    for line in text.splitlines():
        tail.add(line)
    return tail


GO = """\
starting
panic: assignment to entry in nil map

goroutine 1 [running]:
runtime.mapassign(0x1)
\truntime/map.go:12 +0x3
gofull/store.Save(...)
\tgofull/store/save.go:7 +0x1
main.handle({0x4c1e88, 0x6126c0}, 0x70a000)
\tgofull/main.go:89 +0x2
net/http.HandlerFunc.ServeHTTP(0x4c3350)
\tnet/http/server.go:2358 +0x4
"""


def test_go_panic_names_program_line() -> None:
    message = "panic: assignment to entry in nil map (gofull/main.go:89)"
    assert classify(TRAP, None, stderr_tail(GO)) == ("guest-failed", message)


def test_go_panic_in_library_names_first_non_runtime_line() -> None:
    text = GO.replace("main.handle", "gofull.handle")
    assert classify(TRAP, None, stderr_tail(text))[1].endswith("(gofull/store/save.go:7)")


def test_go_panic_with_long_stack_preserves_head() -> None:
    frames = "\n".join(f"runtime.f{n}()\n\truntime/x.go:{n} +0x1" for n in range(500))
    text = f"fatal error: runtime: out of memory\n\ngoroutine 1 [running]:\n{frames}\n"
    assert classify(TRAP, None, stderr_tail(text))[0] == "memory-limit"


def test_rust_panic_names_location() -> None:
    text = "thread '<unnamed>' (1) panicked at src/lib.rs:3:5:\nno luck\nnote: run with `RUST_BACKTRACE=1`\n"
    assert classify(TRAP, None, stderr_tail(text)) == ("guest-failed", "panicked: no luck (src/lib.rs:3:5)")


def test_pending_future_of_wstd_is_a_handler_that_never_answers() -> None:
    head = "thread '<unnamed>' (1) panicked at wstd/src/runtime/block_on.rs:59:13:\n"
    text = (
        f"{head}internal error: ready list empty, therefore root task should be ready. malformed root task?\n"
    )
    assert classify(TRAP, None, stderr_tail(text))[1].startswith("the handler never answers")


def test_python_exception_is_named_instead_of_the_panic_of_its_runtime() -> None:
    traceback = 'Traceback (most recent call last):\n  File "/0/app.py", line 9, in handle\n'
    chain = "\nDuring handling of the above exception, another exception occurred:\n\n"
    panic = "\nthread '<unnamed>' (1) panicked at runtime/src/lib.rs:1280:25:\n"
    end = "Python function threw an unexpected exception\nnote: run with `RUST_BACKTRACE=1`\n"
    text = f"{traceback}KeyError: 1\n{chain}{traceback}ValueError: no tea\nsecond line\n{panic}{end}"
    assert classify(TRAP, None, stderr_tail(text)) == ("guest-failed", "ValueError: no tea")
    assert classify(TRAP, None, stderr_tail(panic + end))[1].startswith("panicked: Python function threw")
    cut = stderr_tail(f"{traceback}{panic}no luck\n")
    assert classify(TRAP, None, cut)[1] == "panicked: no luck (runtime/src/lib.rs:1280:25)"


def test_unreachable_without_panic_ignores_earlier_log_lines() -> None:
    assert "gave up" in classify(TRAP, None, stderr_tail("all is well\n"))[1]


def test_trap_names_the_innermost_function_of_the_program() -> None:
    frames = (
        "core::option::expect_failed::h0123456789abcdef",
        "api::order::save::h0123456789abcdef",
        "api::handle",
    )
    lines = "".join(f"    {n}: {n:#8x} - api.wasm!{name}\n" for n, name in enumerate(frames))
    text = (
        f"error while executing at wasm backtrace:\n{lines}\nCaused by:\n    wasm trap: call stack exhausted"
    )
    assert classify(text, None, StderrTail())[1].endswith("(endless recursion?) in api::order::save")


def test_failure_of_the_engine_names_the_last_call_and_the_last_output() -> None:
    output = stderr_tail("out of memory\n")
    for line in ("paid", "    at pay (index.js:1:1)", "", "out of memory"):
        output.add_output(line)
    activity = "; the last call was: POST http://tables.svc/v1/exec; the last output was: paid"
    for text, failure in ((TRAP, None), (None, EngineFailed()), ("call stack exhausted", None)):
        assert classify(text, failure, output, "POST http://tables.svc/v1/exec")[1].endswith(activity)


ABORT = (
    "libc++abi: bad_alloc was thrown in -fno-exceptions mode",
    "Redirecting call to abort() to mozalloc_abort",
)
STACK_OF_GO = ("fatal error: out of memory", "", "runtime.throw()", "\tpanic.go:1", "created by main")


@pytest.mark.parametrize("lines", [ABORT, STACK_OF_GO])
def test_lines_of_the_failure_itself_are_not_the_last_output(lines: tuple[str, ...]) -> None:
    tail = StderrTail()
    for line in ("step 1", *lines):
        tail.add_output(line)
        tail.add(line)
    reason = "out of memory: the guest exceeded memory_limit_mb; the last output was: step 1"
    assert classify(TRAP, None, tail) == ("memory-limit", reason)


def test_exit_reports_last_line_without_stack() -> None:
    text = "Error: no such order\n    at handle (src/index.js:3:9)\n"
    assert classify(None, GuestExit(1), stderr_tail(text)) == ("guest-failed", "Error: no such order")


def test_failed_allocation_of_the_js_engine_is_out_of_memory() -> None:
    texts = (
        "Error while (cabi_realloc) Unable to realloc, but no exception is pending. Aborting, since that",
        "Hit MOZ_CRASH([unhandlable oom] Failed to allocate new chunk during GC)",
        "libc++abi: bad_alloc was thrown in -fno-exceptions mode",
    )
    for text in texts:
        assert classify(TRAP, None, stderr_tail(f"{text}\n"))[0] == "memory-limit"


def test_wasmtime_error_reports_cause() -> None:
    text = "error while executing at wasm backtrace:\n    0: 0x1\n\nCaused by:\n    unknown handle index 4\n"
    assert classify(text, None, StderrTail()) == ("guest-failed", "the guest failed: unknown handle index 4")
    assert classify(None, None, StderrTail()) == ("guest-failed", "the guest failed")
