"""wasi:cli: environment, exit, standard streams and terminals; denied files and sockets."""

import pytest

from tests.conformance.guest import Guest
from tests.conformance.host import TRACEPARENT, Host


def test_environment_has_manifest_and_platform_variables(host: Host) -> None:
    guest = Guest()
    environment = guest.call("get-environment")
    answer = host.run(guest, env={"COLOUR": "bläu", "EMPTY": ""})
    assert answer[environment] == [
        ("COLOUR", "bläu"),
        ("EMPTY", ""),
        ("SVC_PROJECT", "test"),
        ("SVC_REQUEST_ID", "request-1"),
        ("TRACEPARENT", TRACEPARENT),
    ]


def test_arguments_cwd_and_terminals_are_absent(host: Host) -> None:
    guest = Guest()
    arguments, folder = guest.call("get-arguments"), guest.call("initial-cwd")
    terminals = [guest.call(f"get-terminal-{name}") for name in ("stdin", "stdout", "stderr")]
    answer = host.run(guest)
    assert (answer[arguments], answer[folder]) == ([], None)
    assert [answer[terminal] for terminal in terminals] == [None, None, None]


@pytest.mark.parametrize(
    ("call", "detail"),
    [
        (("exit", "ok"), "the guest exited with status 0"),
        (("exit", "err"), "the guest exited with an error"),
        (("exit-with-code", 0), "the guest exited with status 0"),
        (("exit-with-code", 77), "the guest exited with status 77"),
        (("exit-with-code", 255), "the guest exited with status 255"),
    ],
)
def test_exit_before_response_fails_the_run(host: Host, call: tuple[object, ...], detail: str) -> None:
    guest = Guest()
    guest.call(*call)  # type: ignore[arg-type]
    after = guest.call("get-arguments")
    answer = host.run(guest)
    assert not answer.reached(after)
    assert (answer.report.outcome, answer.detail, answer.status) == ("guest-failed", detail, None)


@pytest.mark.parametrize("call", [("exit", "ok"), ("exit-with-code", 0)])
def test_exit_after_complete_response_succeeds(host: Host, call: tuple[object, ...]) -> None:
    guest = Guest()
    guest.answer(b"whole")
    guest.call(*call)  # type: ignore[arg-type]
    answer = host.run(guest)
    assert (answer.status, answer.body, answer.ended) == (200, b"whole", True)
    assert (answer.report.outcome, answer.detail) == ("ok", "")


def test_exit_with_error_after_response_fails_the_run(host: Host) -> None:
    guest = Guest()
    guest.answer(b"whole")
    guest.call("exit", "err")
    answer = host.run(guest)
    assert answer.body == b"whole" and answer.report.complete
    assert answer.report.outcome == "guest-failed"


def test_exit_during_response_fails_the_run(host: Host) -> None:
    guest = Guest()
    _, stream = guest.body()
    guest.call("output-stream.blocking-write-and-flush", stream, b"half")
    guest.call("exit", "ok")
    answer = host.run(guest)
    assert (answer.status, answer.body, answer.ended) == (200, b"half", False)
    assert answer.report.outcome == "guest-failed"


@pytest.mark.parametrize("last", ["", "Warning: JS event loop terminated without completing the request.\n"])
def test_missing_response_after_lack_of_memory_is_the_memory_limit(host: Host, last: str) -> None:
    guest = Guest()
    stderr = guest.call("get-stderr")
    text = f"uncaught exception: out of memory\n{last}".encode()
    guest.call("output-stream.blocking-write-and-flush", stderr, text, report=False)
    assert host.run(guest).report.outcome == "memory-limit"


def test_stdin_is_closed(host: Host) -> None:
    guest = Guest()
    stdin = guest.call("get-stdin")
    second = guest.call("get-stdin")
    steps = [
        guest.call(f"input-stream.{name}", stream, count)
        for stream in (stdin, second)
        for name in ("read", "blocking-read", "skip", "blocking-skip")
        for count in (0, 1, (1 << 64) - 1)
    ]
    answer = host.run(guest)
    assert {answer[step] for step in steps} == {("err", "closed")}


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_printed_output_becomes_lines(host: Host, name: str) -> None:
    guest = Guest()
    stream = guest.call(f"get-{name}")
    for part in (b"one\ntw", b"o\r\n", b"\xff\n"):
        guest.call("output-stream.blocking-write-and-flush", stream, part, report=False)
    guest.call("output-stream.check-write", stream, report=False)
    guest.call("output-stream.write", stream, b"no newline at its end", report=False)
    guest.call("output-stream.flush", stream, report=False)
    assert host.run(guest).lines == [
        (name, "one"),
        (name, "two"),
        (name, "\ufffd"),
        (name, "no newline at its end"),
    ]


def test_stdout_and_stderr_can_be_requested_repeatedly_and_never_block(host: Host) -> None:
    guest = Guest()
    for name in ("get-stdout", "get-stderr"):
        stream, other = guest.call(name), guest.call(name)
        pollable = guest.call("output-stream.subscribe", stream)
        guest.call("pollable.block", pollable)
        guest.drop(stream)
        guest.call("output-stream.blocking-write-and-flush", other, b"", report=False)
        last = guest.call("output-stream.blocking-flush", other)
    assert host.run(guest)[last] == ("ok", None)


def test_no_folders_are_preopened(host: Host) -> None:
    guest = Guest()
    folders = guest.call("get-directories")
    assert host.run(guest)[folders] == []


@pytest.mark.parametrize("family", ["ipv4", "ipv6"])
def test_sockets_are_denied(host: Host, family: str) -> None:
    guest = Guest()
    tcp, udp = guest.call("create-tcp-socket", family), guest.call("create-udp-socket", family)
    answer = host.run(guest)
    assert answer[tcp] == answer[udp] == ("err", "access-denied")


def test_name_lookup_is_denied(host: Host) -> None:
    guest = Guest()
    network = guest.call("instance-network")
    result = [guest.call("resolve-addresses", network, name) for name in ("localhost", "127.0.0.1", "")]
    guest.drop(network)
    answer = host.run(guest)
    assert {answer[step] for step in result} == {("err", "access-denied")}


def test_script_source_without_script_traps(host: Host) -> None:
    guest = Guest()
    source = guest.call("source")
    assert host.run(guest, script="export default 1")[source] == "export default 1"
    answer = host.run(guest)
    assert answer.report.outcome == "guest-failed" and "no script" in answer.detail
