"""Components assembled from text, for tests of prebuilt components."""

from collections.abc import Iterable

from wasmtime import wat2wasm

HANDLER = "wasi:http/incoming-handler@0.2.3"


def component(
    imports: Iterable[str] = (), exports: Iterable[str] = (HANDLER,), note: str = "", code: str = ""
) -> bytes:
    """Make a component with these interfaces; its handler does nothing.

    A different `note` yields a different component; `code` are more fields of its module.
    """
    imported = "\n".join(f'(import "{name}" (instance (export "f" (func))))' for name in imports)
    exported = "\n".join(f'(export "{name}" (instance $instance))' for name in exports)
    return bytes(
        wat2wasm(
            f"""(component
            {imported}
            (core module $module (func (export "f") (param i32 i32))
              (global (export "{note}") i32 (i32.const 0)) {code})
            (core instance $core (instantiate $module))
            (func $f (param "request" u32) (param "out" u32) (canon lift (core func $core "f")))
            (instance $instance (export "handle" (func $f)))
            {exported})"""
        )
    )
