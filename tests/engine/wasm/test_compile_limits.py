"""The compiler process has limits, and ends with the process that started it."""

import asyncio
import signal
import subprocess
import sys
import time
from hashlib import sha256
from pathlib import Path

import pytest
from wasmtime import wat2wasm

from engine.wasm.compile import code_cache
from engine.wasm.compile.code_cache import compile_component
from engine.wasm.compile.component_file import ComponentRejected
from engine.wasm_binary import section, vector
from tests.conformance.guest import Guest
from tests.engine.wasm import text_guest
from tests.engine.wasm.bombs import BOMBS
from tests.support.waiting import is_running, until

_STARTER = """
import asyncio, sys
from pathlib import Path
from engine.wasm.compile.code_cache import compile_component
path, report = Path(sys.argv[1]), lambda line: print(line, flush=True)
asyncio.run(compile_component(path, path.stem, path.parent, fast=False, report=report))
"""


def bomb(folder: Path) -> Path:
    """Write a small component that takes minutes and gigabytes to compile. Its core modules are 0 to 2."""
    component = BOMBS["loops with variables"](100)
    path = folder / f"{sha256(component).hexdigest()}.wasm"
    path.write_bytes(component)
    return path


def compiled(path: Path, cache: Path) -> None:
    asyncio.run(compile_component(path, path.stem, cache, fast=False, report=lambda line: None))


def rejection(path: Path, cache: Path) -> str:
    with pytest.raises(ComponentRejected) as exc_info:
        compiled(path, cache)
    assert exc_info.value.hint
    assert not list((cache / "compiled").glob("*.cwasm"))
    return exc_info.value.message.removeprefix(path.name)


def test_compiler_stops_at_its_limits_and_names_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = bomb(tmp_path)
    monkeypatch.setattr(code_cache, "MEMORY_BYTES", 256 << 20)
    assert rejection(path, tmp_path) == " does not compile within 256 MiB of memory"
    monkeypatch.undo()
    monkeypatch.setattr(code_cache, "CPU_SECONDS", 1)
    assert rejection(path, tmp_path) == " does not compile within 1 s of CPU time"
    monkeypatch.undo()
    monkeypatch.setattr(code_cache, "WALL_SECONDS", 0.5)
    assert rejection(path, tmp_path) == " does not compile within 0.5 s"


BEYOND = {
    "3 tables of a module": (
        "(table 1 funcref) " * 3,
        1,
        "defined tables count of 3 exceeds the per-instance limit of 1",
    ),
    "2 memories of a module": (
        "(memory 1) (memory 1)",
        1,
        "memories count of 2 exceeds the per-instance limit of 1",
    ),
    "elements": ("(table 60001 funcref)", 1, "element size of 60001 which exceeds the limit of 60000"),
    "size of a memory": (
        "(memory 16385)",
        1,
        "size of 1073807360 which exceeds the limit of 0x40000000 bytes",
    ),
    "globals": ("(global i64 (i64.const 0))" * 70_000, 1, "exceeds the configured maximum of 1048576 bytes"),
    "memories": ("(memory 1)", 9, "exceeds the configured maximum of 8 "),
    "tables": ("(table 1 funcref)", 33, "exceeds the configured maximum of 32 "),
    "instances": ("", 41, "exceeds the configured maximum of 40 "),
}


@pytest.mark.parametrize(("fields", "instances", "reason"), BEYOND.values(), ids=BEYOND.keys())
def test_component_beyond_a_limit_is_rejected_with_it_before_it_is_compiled(
    tmp_path: Path, fields: str, instances: int, reason: str
) -> None:
    module = bytes(wat2wasm(f"(module {fields})"))
    component = bomb(tmp_path).read_bytes()
    component += section(1, module) + section(2, vector([b"\x00\x03\x00"] * instances))
    path = tmp_path / f"{sha256(component).hexdigest()}.wasm"
    path.write_bytes(component)
    assert reason in rejection(path, tmp_path)


def test_invalid_component_is_rejected_with_the_reason(tmp_path: Path) -> None:
    """Without a memory, the functions that it lowers have no place for their results."""
    text = Guest().text().replace(" (memory $memory) (realloc $realloc)", "")
    path = tmp_path / "guest.wasm"
    path.write_bytes(bytes(wat2wasm(text)))
    assert "canonical option `memory` is required" in rejection(path, tmp_path)


def test_machine_code_above_limit_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_cache, "MAX_CODE_BYTES", 1000)
    path = text_guest.artifact(tmp_path).component
    assert rejection(path, tmp_path).endswith("bytes; the maximum is 0 MiB")


def test_compiler_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    path = bomb(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", _STARTER, str(path)], stdout=subprocess.PIPE, text=True
    ) as starter:
        assert starter.stdout is not None
        assert "compiling" in starter.stdout.readline()
        children = Path(f"/proc/{starter.pid}/task/{starter.pid}/children")
        running = until(lambda: children.read_text().split())
        time.sleep(1)
        starter.send_signal(signal.SIGKILL)
    until(lambda: not any(is_running(int(pid)) for pid in running))


def test_compilations_wait_for_a_slot(tmp_path: Path) -> None:
    async def main() -> list[str]:
        lines: list[str] = []
        slots = asyncio.Semaphore(1)
        paths = [written(tmp_path, number) for number in range(2)]
        jobs = [
            compile_component(path, path.stem, tmp_path, fast=True, report=lines.append, slots=slots)
            for path in paths
        ]
        await asyncio.gather(*jobs)
        return lines

    lines = asyncio.run(main())
    assert lines == [
        "compiling a component to machine code …",
        "waiting for other compilations …",
        "compiling a component to machine code …",
    ]


def written(folder: Path, number: int) -> Path:
    data = text_guest.component() + section(0, b"\x01n" + bytes([number]))
    path = folder / f"{sha256(data).hexdigest()}.wasm"
    path.write_bytes(data)
    return path
