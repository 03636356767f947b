import asyncio
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wasmtime import Engine, Instance, Memory, Module, Store

from engine.wasm.binary.memory_image import MAX_IMAGE_BYTES, MIN_IMAGE_BYTES, SplitComponent, split_memory
from engine.wasm.capi.pages import PAGE_BYTES
from engine.wasm.compile import code_cache
from engine.wasm.compile.check import ComponentRejected
from engine.wasm.compile.code_cache import CompiledComponent, compile_component
from engine.wasm.compile.compilers import Compiler
from engine.wasm.compile.image_file import (
    MAX_RANGES,
    MemoryImage,
    image_file,
    own_pages,
    read_image,
    write_image,
)
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
ENGINE = Engine(compile_config(Compiler.OPTIMIZING))


def with_data(*segments: tuple[int, str], note: str = "", pages: int = 200, more: str = "") -> bytes:
    """Return a component whose memory starts with text at these addresses."""
    data = "".join(f'(data (i32.const {address}) "{text}")' for address, text in segments)
    return component(note=note, code=f"(memory {pages}) {data} {more}")


def compiled(binary: bytes, folder: Path) -> CompiledComponent:
    path = folder / f"{sha256(binary).hexdigest()}.wasm"
    path.write_bytes(binary)
    return asyncio.run(compile_component(path, path.stem, folder, fast=False, report=lambda line: None))


def memory_of(image: MemoryImage | None) -> bytes:
    """Return the initial memory that is beside the machine code, from address 0."""
    assert image is not None
    content, own = bytearray(image.length), own_pages(image)
    _, at, length = image.below
    content[at : at + length] = image.base.read_bytes()[:length]
    for position, offset, size in image.own:
        content[offset : offset + size] = own[position : position + size]
    return bytes(image.start) + bytes(content)


def shared_codes(folder: Path) -> int:
    return len(list((folder / "compiled").glob("code-*.cwasm")))


def test_components_that_differ_in_memory_share_machine_code(tmp_path: Path) -> None:
    paths = set()
    for text in (FILL, FILL.upper(), FILL.replace("s", "\\00")):
        component = compiled(with_data((PAGE, text)), tmp_path)
        content = text.replace("\\00", "\0").encode()
        assert memory_of(component.image) == bytes(PAGE) + content
        assert component.path.read_bytes().find(content[:100]) < 0
        paths.add(component.path)
    assert len(paths) == shared_codes(tmp_path) == 1


def test_machine_code_above_limit_is_not_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_cache, "MAX_CODE_BYTES", MIN_IMAGE_BYTES + 1000)
    with pytest.raises(ComponentRejected, match="machine code has"):
        compiled(with_data((PAGE, FILL)), tmp_path)
    assert not list((tmp_path / "compiled").glob("*.cwasm"))


@pytest.mark.parametrize("lost", [1000, 0])
@pytest.mark.parametrize("pattern", ["code-*.cwasm", "*.pages"])
def test_damaged_or_missing_file_is_written_again(tmp_path: Path, pattern: str, lost: int) -> None:
    binary = with_data((PAGE, FILL))
    compiled(binary, tmp_path)
    (damaged,) = (tmp_path / "compiled").glob(pattern)
    content = damaged.read_bytes()
    damaged.write_bytes(content[:-lost])
    if not lost:
        damaged.unlink()
    assert memory_of(compiled(binary, tmp_path).image) == bytes(PAGE) + FILL.encode()
    assert damaged.read_bytes() == content


def test_components_of_other_code_share_no_machine_code(tmp_path: Path) -> None:
    for number, binary in enumerate(
        (with_data((PAGE, FILL)), with_data((PAGE, FILL), note="other"), with_data((PAGE, FILL), pages=300))
    ):
        compiled(binary, tmp_path)
        assert shared_codes(tmp_path) == number + 1


def test_components_of_other_image_size_share_machine_code(tmp_path: Path) -> None:
    for address, text in ((PAGE, FILL), (2 * PAGE, FILL), (PAGE, f"{FILL}wasm")):
        component = compiled(with_data((address, text)), tmp_path)
        assert memory_of(component.image).rstrip(b"\0") == bytes(address) + text.encode()
    assert shared_codes(tmp_path) == 1


SAME_SIZE = (
    '(memory 200) (data (i32.const 0) "" ) (data (i32.const 65536) "' + FILL + '")) (core module $other '
    '(memory (export "memory") 200)) (core instance (instantiate $other)) (core module'
)


@pytest.mark.parametrize(
    "binary",
    [
        pytest.param(with_data((PAGE, "wasm")), id="small"),
        pytest.param(with_data((0, "wasm"), (MIN_IMAGE_BYTES, "wasm")), id="sparse"),
        pytest.param(with_data((0, FILL), (MAX_IMAGE_BYTES, FILL), pages=2000), id="large"),
        pytest.param(with_data((0, FILL), more='(data "passive")'), id="passive segment"),
        pytest.param(
            with_data((0, FILL), more='(data (i32.add (i32.const 1) (i32.const 2)) "")'), id="computed"
        ),
        pytest.param(component(), id="without memory"),
        pytest.param(component(code=SAME_SIZE), id="memories of the same size"),
    ],
)
def test_component_that_does_not_fit_is_compiled_whole(tmp_path: Path, binary: bytes) -> None:
    with pytest.raises(UnsupportedBinary):
        split_memory(weave(binary))
    assert compiled(binary, tmp_path).image is None
    assert shared_codes(tmp_path) == 0


def test_data_outside_of_the_memory_is_left_to_wasmtime() -> None:
    with pytest.raises(UnsupportedBinary, match="outside"):
        split_memory(weave(with_data((PAGE, FILL), pages=2)))


def test_component_whose_code_addresses_segments_is_compiled_whole(tmp_path: Path) -> None:
    code = "(func (memory.init 1 (i32.const 0) (i32.const 0) (i32.const 0)))"
    assert compiled(with_data((0, FILL), (5, "x"), more=code), tmp_path).image is None


@settings(max_examples=examples(20))
@given(st.lists(st.tuples(st.integers(0, 98 * PAGE), st.binary(min_size=1, max_size=2 * PAGE)), max_size=6))
def test_image_is_the_memory_of_an_instance(small: list[tuple[int, bytes]]) -> None:
    segments = [(4 * PAGE, b"w" * (4 * MIN_IMAGE_BYTES)), *small]
    data = [b"\0\x41" + sleb(address) + b"\x0b" + name(content) for address, content in segments]
    module = (
        MODULE_HEADER
        + section(5, vector([b"\0" + uleb(100)]))
        + section(7, vector([name(b"memory") + b"\x02\0"]))
        + section(11, vector(data))
    )
    split = split_memory(COMPONENT_HEADER + section(1, module) + section(2, vector([b"\0\0\0"])))
    store = Store(ENGINE)
    memory = Instance(store, Module(ENGINE, module), []).exports(store)["memory"]
    assert isinstance(memory, Memory)
    assert memory.data_len(store) == split.minimum
    end = split.start + len(split.image)
    assert memory.read(store, split.start, end) == split.image
    assert not any(memory.read(store, 0, split.start)) and not any(memory.read(store, end))


def test_second_component_has_only_the_pages_that_differ(tmp_path: Path) -> None:
    changed = FILL[: 40 * PAGE_BYTES] + "other" + FILL[40 * PAGE_BYTES + 5 :]
    first, second = (compiled(with_data((PAGE, text)), tmp_path) for text in (FILL, changed))
    assert first.image is not None and second.image is not None
    assert first.image.base == second.image.base and first.image.below == second.image.below
    assert first.image.own == () and [*second.image.own] == [(0, 40 * PAGE_BYTES, PAGE_BYTES)]
    assert second.image.path.stat().st_size < 1000
    assert memory_of(second.image) == bytes(PAGE) + changed.encode()
    assert first.image.limits == second.image.limits == (None,)


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.integers(0, 299), st.binary(min_size=1, max_size=9)), max_size=60),
    st.integers(0, 3),
    st.integers(0, 3),
)
def test_image_of_layers_is_the_memory(
    tmp_path: Path, changes: list[tuple[int, bytes]], shift: int, longer: int
) -> None:
    base = bytes(range(256)) * (300 * PAGE_BYTES // 256)
    image = bytearray(base + bytes(longer * PAGE))
    for page, data in changes:
        image[page * PAGE_BYTES : page * PAGE_BYTES + len(data)] = data
    folder = tmp_path / sha256(image).hexdigest()
    folder.mkdir(exist_ok=True)
    minimum = 64 * PAGE
    for file, content, start in (("a-x.cwasm", base, PAGE), ("b-x.cwasm", bytes(image), shift * PAGE)):
        write_image(folder / file, SplitComponent(b"code", content, start, minimum), (None, 5))
    found = read_image(image_file(folder / "b-x.cwasm"))
    assert found is not None
    assert len(found.own) <= MAX_RANGES
    assert memory_of(found).rstrip(b"\0") == (bytes(shift * PAGE) + image).rstrip(b"\0")
    assert (found.minimum, found.limits) == (minimum, (None, 5))


@pytest.mark.parametrize("lost", [1000, 0])
def test_damaged_or_missing_base_is_written_again(tmp_path: Path, lost: int) -> None:
    changed = "w" + FILL
    binaries = [with_data((PAGE, text)) for text in (FILL, changed)]
    for binary in binaries:
        compiled(binary, tmp_path)
    (base,) = (tmp_path / "compiled").glob("*.memory")
    content = base.read_bytes()
    base.unlink()
    if lost:
        base.write_bytes(content[:-lost])
    for binary, text in zip(reversed(binaries), (changed, FILL), strict=True):
        assert memory_of(compiled(binary, tmp_path).image).rstrip(b"\0") == bytes(PAGE) + text.encode()
