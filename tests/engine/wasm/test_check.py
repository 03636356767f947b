import asyncio
from hashlib import sha256
from pathlib import Path

import pytest
from wasmtime import Engine, wat2wasm
from wasmtime.component import Component

from engine.wasm.capi.linker import LinkedComponent
from engine.wasm.compile.check import check_component
from engine.wasm.compile.code_cache import CodeCacheError, CompiledComponent, compile_component
from engine.wasm.compile.compilers import MAX_COMPONENT_BYTES, Compiler, code_key
from engine.wasm.compile.component_file import ComponentRejected, error_context
from engine.wasm.weave.builder import HOST_INTERFACE
from tests.lanes.components import HANDLER, component


def written(folder: Path, data: bytes) -> Path:
    path = folder / f"{sha256(data).hexdigest()}.wasm"
    path.write_bytes(data)
    return path


def compiled(path: Path, cache: Path) -> CompiledComponent:
    return asyncio.run(compile_component(path, path.stem, cache, fast=True, report=lambda line: None))


def test_component_with_supported_imports_is_compiled(tmp_path: Path) -> None:
    path = written(tmp_path, component(["wasi:io/error@0.2.3", "wasi:cli/environment@0.2.0"]))
    check_component(path)
    assert compiled(path, tmp_path).path.is_file()


@pytest.mark.parametrize(
    ("code", "compiler"), [("", Compiler.BASELINE), ("(func $f return_call $f)", Compiler.OPTIMIZING)]
)
def test_fast_compilation_prefers_baseline_compiler(tmp_path: Path, code: str, compiler: Compiler) -> None:
    path = written(tmp_path, component(code=code))
    assert [compiled(path, tmp_path).compiler for _ in range(2)] == [compiler, compiler]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (
            component(["acme:db/store@1.0.0", "wasi:nn/graph@0.2.0"]),
            "acme:db/store@1.0.0, wasi:nn/graph@0.2.0",
        ),
        (component([HOST_INTERFACE]), HOST_INTERFACE),
        (component(["wasi:io/error@0.3.0"]), "wasi:io/error@0.3.0"),
        (component(exports=["wasi:cli/run@0.2.3"]), "it exports wasi:cli/run@0.2.3"),
        (component(exports=[]), "it exports nothing"),
        (component(exports=["wasi:http/incoming-handler@0.3.0"]), "wasi:http/incoming-handler@0.3.0"),
    ],
)
def test_unsupported_component_is_rejected_by_name_before_compilation(
    tmp_path: Path, data: bytes, words: str
) -> None:
    path = written(tmp_path, data)
    with pytest.raises(ComponentRejected) as exc_info, error_context("api"):
        compiled(path, tmp_path)
    assert words in exc_info.value.message and exc_info.value.message.startswith("resource api: ")
    assert exc_info.value.hint
    assert not list((tmp_path / "compiled").glob("*.cwasm"))


def test_all_but_the_binary_format_of_components_is_rejected(tmp_path: Path) -> None:
    text = b"(component)"
    for data in (b"\0asm\x01\0\0\0", b"rubbish", b"", b"\0asm\x0d\0\x01", b"\0asm\x0e\0\x01\0", text):
        with pytest.raises(ComponentRejected, match="is not the binary of a WebAssembly component"):
            compiled(written(tmp_path, data), tmp_path)
    with pytest.raises(ComponentRejected, match="does not compile"):
        compiled(written(tmp_path, b"\0asm\x0d\0\x01\0rubbish"), tmp_path)


def test_component_of_excessive_size_is_rejected_without_reading_it(tmp_path: Path) -> None:
    path = tmp_path / "large.wasm"
    with path.open("wb") as file:
        file.write(component())
        file.truncate(MAX_COMPONENT_BYTES + 1)
    with pytest.raises(ComponentRejected, match=r"large\.wasm is larger than 256 MiB"):
        check_component(path)


@pytest.mark.parametrize("folder", [True, False])
def test_unwritable_cache_raises_code_cache_error(tmp_path: Path, folder: bool) -> None:
    path, stored = written(tmp_path, component()), tmp_path / "compiled"
    if folder:
        stored.write_text("in the way")
    else:
        (stored / f"{path.stem}-{code_key(Compiler.BASELINE)}.lock").mkdir(parents=True)
    with pytest.raises(CodeCacheError, match="cannot cache the machine code of a component in") as exc_info:
        compiled(path, tmp_path)
    assert str(stored) in exc_info.value.message and "free disk space" in exc_info.value.hint
    assert exc_info.value.public_message.endswith(": File exists" if folder else ": Is a directory")
    assert str(tmp_path) not in exc_info.value.public_message


def test_machine_code_without_the_entry_point_is_rejected() -> None:
    engine = Engine()
    with pytest.raises(ComponentRejected, match="the machine code has no entry point"):
        LinkedComponent(Component(engine, component()), engine, {})


def test_reason_of_the_weaver_and_of_wasmtime_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ComponentRejected, match="structure that svc cannot run: its handler is not a core"):
        compiled(written(tmp_path, component(exports=[HANDLER, f"{HANDLER}1"])), tmp_path)
    with pytest.raises(ComponentRejected, match="type mismatch"):
        compiled(written(tmp_path, component(code="(func (result i32))")), tmp_path)


def test_composed_component_is_rejected_with_the_way_out(tmp_path: Path) -> None:
    inner = '(core module) (export "handler" (instance $instance)))'
    text = f"""(component (component $inner (instance $instance) {inner}
      (instance $made (instantiate $inner)) (export "{HANDLER}" (instance $made "handler")))"""
    with pytest.raises(ComponentRejected, match="it consists of several components") as exc_info:
        compiled(written(tmp_path, bytes(wat2wasm(text))), tmp_path)
    assert "Link the parts" in exc_info.value.hint
