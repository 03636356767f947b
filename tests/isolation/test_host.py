"""Guests cannot access the host: its variables, files, sockets, arguments or terminal."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import engine.wasm.compile.check
from engine.wasm.weave.weaver import library
from tests.conformance.canonical import Place
from tests.conformance.guest import Guest
from tests.conformance.host import Host
from tests.conformance.wit import Ref
from tests.engine.wasm.text_guest import serve
from tests.support.guest_client import Client


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    host = Host(tmp_path_factory.mktemp("isolation"))
    yield host
    host.close()


@pytest.mark.slow
def test_environment_has_nothing_of_the_host(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SVC_SENTINEL", "of the host")

    async def test(guest: Any, _runner: Any) -> bytes:
        return (await Client().call(guest, "/v")).body

    observed = serve(cache, test, env={"COLOUR": "blue"})
    assert b"COLOUR" in observed and b"blue" in observed and b"request-1" in observed
    assert b"SENTINEL" not in observed and b"HOME" not in observed
    assert os.environ["PATH"].encode() not in observed and str(Path.cwd()).encode() not in observed


def test_folders_arguments_and_terminals_are_absent(host: Host) -> None:
    guest = Guest()
    expected: dict[str, Any] = {
        "get-directories": [],
        "get-arguments": [],
        "initial-cwd": None,
        "get-terminal-stdin": None,
        "get-terminal-stdout": None,
    }
    steps = {name: guest.call(name) for name in expected}
    answer = host.run(guest)
    assert {name: answer[step] for name, step in steps.items()} == expected


def test_files_and_sockets_cannot_be_opened(host: Host) -> None:
    exported = {name.decode() for name in library().functions.exports if not name.startswith(b"drop#")}
    assert {name for name in exported if name.startswith("wasi:filesystem/")} == {
        "wasi:filesystem/preopens#get-directories",
        "wasi:filesystem/types#filesystem-error-code",
    }
    opening = {name for name in exported if name.startswith("wasi:sockets/") and "network" not in name}
    assert len(opening) == 3
    guest = Guest()
    network = guest.call("instance-network")
    steps = [
        guest.call("create-tcp-socket", "ipv4"),
        guest.call("create-udp-socket", "ipv6"),
        guest.call("resolve-addresses", network, "localhost"),
    ]
    assert {step.function.key for step in steps} == opening
    answer = host.run(guest)
    assert [answer[step] for step in steps] == [("err", "access-denied")] * 3


@pytest.mark.parametrize("forged", [0, 5, 65_536, 1 << 31, (1 << 32) - 1])
@pytest.mark.parametrize(
    "name", ["fields.entries", "incoming-body.stream", "future-incoming-response.get", "pollable.ready"]
)
def test_forged_handle_reaches_no_object(host: Host, name: str, forged: int) -> None:
    """Handles are indices of a table in the instance, which has nothing but the request and stdout here."""
    guest = Guest()
    place = Place(guest.static.reserve(4, 4), Ref("wasi:http/types", "fields"))
    guest.code(f"(i32.store (i32.const {place.at}) (i32.const {forged}))")
    last = guest.call(name, place)
    answer = host.run(guest)
    assert answer.report.outcome == "guest-failed" and not answer.reached(last)
    assert f"unknown handle index {forged}" in answer.detail


def test_only_wasi_can_be_imported() -> None:
    assert {name.partition(":")[0] for name in engine.wasm.compile.check.HOSTED_INTERFACES} <= {"wasi", "svc"}
