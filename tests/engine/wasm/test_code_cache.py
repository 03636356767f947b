"""Machine code in the cache: a file that is not as it was written is compiled again."""

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.files.sealed import is_sealed, write_sealed
from engine.wasm.execution.runner import Guest, Runner
from tests.engine.wasm.conftest import Client
from tests.engine.wasm.text_guest import serve


def hello(cache: Path) -> bytes:
    async def call(guest: Guest, _runner: Runner) -> bytes:
        return (await Client().call(guest, "/h")).body

    return bytes(serve(cache, call))


def machine_code(cache: Path) -> Path:
    (path,) = (cache / "compiled").glob("*.cwasm")
    return path


def flipped(data: bytes, position: int) -> bytes:
    return data[:position] + bytes([data[position] ^ 0x55]) + data[position + 1 :]


def test_damaged_machine_code_is_compiled_again(tmp_path: Path) -> None:
    expected = hello(tmp_path)
    path = machine_code(tmp_path)
    whole = path.read_bytes()
    damages: list[Callable[[bytes], bytes]] = [
        lambda data: b"",
        lambda data: data[: len(data) // 2],
        lambda data: data + b"\0",
        lambda data: flipped(data, 100),
        lambda data: flipped(data, len(data) // 2),
        lambda data: flipped(data, len(data) - 1),
    ]
    for damage in damages:
        path.write_bytes(damage(whole))
        assert not is_sealed(path)
        assert hello(tmp_path) == expected
        assert path.read_bytes() == whole


def test_machine_code_that_wasmtime_rejects_is_compiled_again(tmp_path: Path) -> None:
    expected = hello(tmp_path)
    path = machine_code(tmp_path)
    write_sealed(path, b"\x7fELF for another processor")
    assert is_sealed(path)
    assert hello(tmp_path) == expected


def test_sealed_file_of_any_size_is_verified(tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert not is_sealed(path)
    for size in (0, 1, 1 << 20, (1 << 20) + 1):
        write_sealed(path, bytes(size))
        assert is_sealed(path) and path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(OSError):
        is_sealed(tmp_path)
