"""Guests cannot access the host: its variables, files, sockets, arguments or terminal."""

import os
from pathlib import Path
from typing import Any

import pytest

import engine.wasm.compile.check
from engine.wasm.capi.values import Err
from engine.wasm.wasi.registry import FUNCTIONS
from tests.engine.wasm.conftest import Client
from tests.engine.wasm.text_guest import serve


@pytest.mark.slow
def test_environment_has_nothing_of_the_host(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SVC_SENTINEL", "of the host")

    async def test(guest: Any, _runner: Any) -> bytes:
        return (await Client().call(guest, "/v")).body

    observed = serve(cache, test, env={"COLOUR": "blue"})
    assert b"COLOUR" in observed and b"blue" in observed and b"request-1" in observed
    assert b"SENTINEL" not in observed and b"HOME" not in observed
    assert os.environ["PATH"].encode() not in observed and str(Path.cwd()).encode() not in observed


def test_folders_arguments_and_terminals_are_absent() -> None:
    empty: dict[str, Any] = {
        "wasi:filesystem/preopens#get-directories": [],
        "wasi:cli/environment#get-arguments": [],
        "wasi:cli/environment#initial-cwd": None,
        "wasi:cli/terminal-stdin#get-terminal-stdin": None,
        "wasi:cli/terminal-stdout#get-terminal-stdout": None,
    }
    assert {name: FUNCTIONS[name].body(None) for name in empty} == empty


def test_files_and_sockets_cannot_be_opened() -> None:
    files = {name for name in FUNCTIONS if name.startswith("wasi:filesystem/")}
    assert files == {
        "wasi:filesystem/preopens#get-directories",
        "wasi:filesystem/types#filesystem-error-code",
    }
    opening = [name for name in FUNCTIONS if name.startswith("wasi:sockets/") and "network" not in name]
    assert len(opening) == 3
    for name in opening:
        with pytest.raises(Err) as exc_info:
            FUNCTIONS[name].body(*[None] * FUNCTIONS[name].body.__code__.co_argcount)
        assert exc_info.value.value == "access-denied"


def test_only_wasi_can_be_imported() -> None:
    assert {name.partition(":")[0] for name in engine.wasm.compile.check.HOSTED_INTERFACES} <= {"wasi", "svc"}
