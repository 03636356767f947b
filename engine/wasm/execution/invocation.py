"""One request's use of a component: instantiation, then the handler's call, behind one `poll`."""

from collections.abc import Callable

from engine.wasm.binary.memory_limits import PAGE_BYTES
from engine.wasm.capi.linker import LinkedComponent
from engine.wasm.capi.wasmtime import Instance


class Invocation:
    """Poll and close it as a `CallFuture`."""

    def __init__(self, context: int, program: LinkedComponent, arguments: Callable[[], bytes]) -> None:
        """Start in the store of `context`; `arguments` is called once the instance exists."""
        self._program = program
        self._arguments = arguments
        self._instance = Instance(context)
        self._call = self._instance.instantiate(program.linker, program.component)
        self._handling = False
        self._error_text: str | None = None

    def poll(self) -> bool:
        """Run guest code until it completes (`True`), waits in a host call, or an epoch passes (`False`).

        Raises `WasmtimeApiError` if the handler cannot be called.
        """
        if not self._call.poll():
            return False
        if not self._handling:
            self._error_text = self._call.close()
            if self._error_text is not None:
                return True
            program, self._handling = self._program, True
            self._call = self._instance.call(program.run, self._arguments())
            return self._call.poll()
        return True

    def close(self) -> str | None:
        """Abort a call in progress and free it; return its error text, if any."""
        return self._call.close() or self._error_text

    @property
    def peak_memory(self) -> int | None:
        """Bytes of all memories after the handler returned; `None` if unknown."""
        pages = self._call.result_u32
        return None if pages is None else pages * PAGE_BYTES
