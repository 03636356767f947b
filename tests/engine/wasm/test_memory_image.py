import asyncio
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wasmtime import Engine, Instance, Memory, Module, Store
from wasmtime.component import Component

from engine.files.sealed import SEAL_BYTES
from engine.wasm.binary import memory_image
from engine.wasm.binary.memory_image import MAX_IMAGE_BYTES, MIN_IMAGE_BYTES, SplitComponent, split_memory
from engine.wasm.compile import limits
from engine.wasm.compile.check import ComponentRejected
from engine.wasm.compile.code_cache import compile_component
from engine.wasm.compile.compilers import Compiler
from engine.wasm.execution.config import compile_config
from engine.wasm.weave.weaver import weave
from engine.wasm_binary import (
    COMPONENT_HEADER,
    MODULE_HEADER,
    UnsupportedBinary,
    name,
    section,
    sleb,
    uleb,
    vector,
)
from tests.lanes.components import component
from tests.support.examples import examples

PAGE = 65536
FILL = "wasm" * (MIN_IMAGE_BYTES // 4)
MARK = memory_image._MARK
HOLE = MARK + bytes(100) + MARK
ENGINE = Engine(compile_config(Compiler.OPTIMIZING))


def with_data(*segments: tuple[int, str], note: str = "", pages: int = 200, more: str = "") -> bytes:
    """Return a component whose memory starts with text at these addresses."""
    data = "".join(f'(data (i32.const {address}) "{text}")' for address, text in segments)
    return component(note=note, code=f"(memory {pages}) {data} {more}")


def compiled(binary: bytes, folder: Path) -> bytes:
    path = folder / f"{sha256(binary).hexdigest()}.wasm"
    path.write_bytes(binary)
    result = asyncio.run(compile_component(path, path.stem, folder, fast=False, report=lambda line: None))
    return result.path.read_bytes()[:-SEAL_BYTES]


def shared_codes(folder: Path) -> int:
    return len(list((folder / "compiled").glob("code-*.cwasm")))


def test_components_that_differ_in_memory_are_compiled_once_to_their_own_machine_code(tmp_path: Path) -> None:
    for text in (FILL, FILL.upper(), FILL.replace("s", "\\00")):
        binary = with_data((PAGE, text))
        assert compiled(binary, tmp_path) == bytes(Component(ENGINE, weave(binary)).serialize())
        assert shared_codes(tmp_path) == 1


def test_machine_code_above_limit_is_not_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_CODE_BYTES", 1000)
    with pytest.raises(ComponentRejected, match="machine code has"):
        compiled(with_data((PAGE, FILL)), tmp_path)
    assert not list((tmp_path / "compiled").glob("*.cwasm"))


def test_damaged_shared_machine_code_is_compiled_again(tmp_path: Path) -> None:
    compiled(with_data((PAGE, FILL)), tmp_path)
    (shared,) = (tmp_path / "compiled").glob("code-*.cwasm")
    content = shared.read_bytes()
    shared.write_bytes(content[:-1000])
    binary = with_data((PAGE, FILL.upper()))
    assert compiled(binary, tmp_path) == bytes(Component(ENGINE, weave(binary)).serialize())
    assert shared.read_bytes() == content


def test_components_of_other_code_or_size_share_no_machine_code(tmp_path: Path) -> None:
    for number, binary in enumerate(
        (
            with_data((PAGE, FILL)),
            with_data((PAGE, FILL), note="other"),
            with_data((PAGE, FILL), pages=300),
            with_data((2 * PAGE, FILL)),
            with_data((PAGE, f"{FILL}wasm")),
        )
    ):
        compiled(binary, tmp_path)
        assert shared_codes(tmp_path) == number + 1


@pytest.mark.parametrize(
    "binary",
    [
        pytest.param(with_data((PAGE, "wasm")), id="small"),
        pytest.param(with_data((0, "wasm"), (MIN_IMAGE_BYTES, "wasm")), id="sparse"),
        pytest.param(with_data((0, FILL), (MAX_IMAGE_BYTES, FILL), pages=2000), id="large"),
        pytest.param(with_data((0, FILL), more='(data "passive")'), id="passive segment"),
        pytest.param(
            with_data((0, FILL), more='(global $g i32 (i32.const 0)) (data (global.get $g) "")'), id="global"
        ),
        pytest.param(
            with_data(*((PAGE + 60 * at, "x" * 50) for at in range(MIN_IMAGE_BYTES // 60 + 1))),
            id="small segments",
        ),
        pytest.param(component(), id="without memory"),
    ],
)
def test_component_that_does_not_fit_is_compiled_whole(tmp_path: Path, binary: bytes) -> None:
    with pytest.raises(UnsupportedBinary):
        split_memory(weave(binary))
    compiled(binary, tmp_path)
    assert shared_codes(tmp_path) == 0


@pytest.mark.parametrize("machine_code", [b"", HOLE[1:], HOLE[:-1], HOLE + MARK, MARK + b"-" + HOLE])
def test_machine_code_without_one_place_for_the_memory_raises(machine_code: bytes) -> None:
    with pytest.raises(UnsupportedBinary):
        SplitComponent(b"", bytes(len(HOLE))).with_memory(machine_code)


def test_machine_code_has_the_memory_instead_of_the_placeholder() -> None:
    memory = b"m" * len(HOLE)
    assert SplitComponent(b"", memory).with_memory(b"<" + HOLE + b">") == (b"<", memory, b">")


@settings(max_examples=examples(20))
@given(st.lists(st.tuples(st.integers(0, 98 * PAGE), st.binary(min_size=1, max_size=2 * PAGE)), max_size=6))
def test_image_is_the_memory_of_an_instance(small: list[tuple[int, bytes]]) -> None:
    segments = [(4 * PAGE, b"w" * MIN_IMAGE_BYTES), *small]
    data = [b"\0\x41" + sleb(address) + b"\x0b" + name(content) for address, content in segments]
    module = (
        MODULE_HEADER
        + section(5, vector([b"\0" + uleb(100)]))
        + section(7, vector([name(b"memory") + b"\x02\0"]))
        + section(11, vector(data))
    )
    image = split_memory(COMPONENT_HEADER + section(1, module)).memory
    store = Store(ENGINE)
    memory = Instance(store, Module(ENGINE, module), []).exports(store)["memory"]
    assert isinstance(memory, Memory)
    start = min(address for address, _ in segments) // PAGE * PAGE
    assert memory.read(store, start, start + len(image)) == image
    assert not any(memory.read(store, 0, start)) and not any(memory.read(store, start + len(image)))
