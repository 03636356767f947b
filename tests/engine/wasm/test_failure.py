from engine.wasm.execution.failure import StderrTail, classify
from engine.wasm.execution.run_state import GuestExit

TRAP = "error while executing\nwasm trap: wasm `unreachable` instruction executed"


def complaint(text: str) -> StderrTail:
    made = StderrTail()
    for line in text.splitlines():
        made.add(line)
    return made


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


def test_a_panic_of_go_is_told_with_the_line_of_the_program_that_led_to_it() -> None:
    said = "panic: assignment to entry in nil map (gofull/main.go:89)"
    assert classify(TRAP, None, complaint(GO)) == ("guest-failed", said)


def test_a_panic_elsewhere_is_told_with_the_first_line_outside_the_runtime() -> None:
    text = GO.replace("main.handle", "gofull.handle")
    assert classify(TRAP, None, complaint(text))[1].endswith("(gofull/store/save.go:7)")


def test_the_head_of_a_long_stack_is_not_forgotten() -> None:
    frames = "\n".join(f"runtime.f{n}()\n\truntime/x.go:{n} +0x1" for n in range(500))
    text = f"fatal error: runtime: out of memory\n\ngoroutine 1 [running]:\n{frames}\n"
    assert classify(TRAP, None, complaint(text))[0] == "memory-limit"


def test_a_panic_of_rust_is_told_with_its_place() -> None:
    text = "thread '<unnamed>' (1) panicked at src/lib.rs:3:5:\nno luck\nnote: run with `RUST_BACKTRACE=1`\n"
    assert classify(TRAP, None, complaint(text)) == ("guest-failed", "panicked: no luck (src/lib.rs:3:5)")


def test_a_guest_that_only_gives_up_is_not_blamed_for_what_it_logged_before() -> None:
    assert "gave up" in classify(TRAP, None, complaint("all is well\n"))[1]


def test_a_guest_that_exits_has_its_last_line_told_without_the_stack() -> None:
    text = "Error: no such order\n    at handle (src/index.js:3:9)\n"
    assert classify(None, GuestExit(1), complaint(text)) == ("guest-failed", "Error: no such order")


def test_a_guest_without_room_for_what_its_host_gives_it_has_too_little_memory() -> None:
    text = "Error while (cabi_realloc) Unable to realloc, but no exception is pending. Aborting, since that"
    assert classify(TRAP, None, complaint(f"{text} doesn't seem recoverable at all.\n"))[0] == "memory-limit"


def test_what_the_library_says_is_told_by_its_cause() -> None:
    text = "error while executing at wasm backtrace:\n    0: 0x1\n\nCaused by:\n    unknown handle index 4\n"
    assert classify(text, None, StderrTail()) == ("guest-failed", "the guest failed: unknown handle index 4")
    assert classify(None, None, StderrTail()) == ("guest-failed", "the guest failed")
