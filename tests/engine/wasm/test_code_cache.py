"""Machine code in the cache: a file that is not as it was written is compiled again."""

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.files.sealed import SEAL_BYTES, is_sealed, write_sealed
from engine.wasm.execution.runner import Guest, Runner
from tests.engine.wasm.text_guest import serve
from tests.support.guest_client import Client


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
    content = path.read_bytes()
    damages: list[Callable[[bytes], bytes]] = [
        lambda data: b"",
        lambda data: data[: len(data) // 2],
        lambda data: data + b"\0",
        lambda data: flipped(data, 100),
        lambda data: flipped(data, len(data) // 2),
        lambda data: flipped(data, len(data) - 1),
    ]
    for damage in damages:
        path.write_bytes(damage(content))
        assert not is_sealed(path)
    assert hello(tmp_path) == expected
    assert path.read_bytes() == content


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
        write_sealed(path, bytes(size // 2), bytes(size - size // 2))
        assert is_sealed(path) and path.stat().st_mode & 0o777 == 0o600
        assert path.read_bytes()[:-SEAL_BYTES] == bytes(size)
        sealed = path.read_bytes()
        for damaged in (b"", sealed[:-1], sealed + b"\0", flipped(sealed, len(sealed) - 1)):
            path.write_bytes(damaged)
            assert not is_sealed(path)
    with pytest.raises(OSError):
        is_sealed(tmp_path)
