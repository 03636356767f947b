"""An instance that is made, and then its handler's call: one thing to poll.

Owns which of the two is under way. Who polls, and when a call is given up, is `drive.py`'s to say.
"""

from collections.abc import Callable

from engine.wasm.binary.memory_probe import PAGE_BYTES
from engine.wasm.capi.linker import LinkedComponent
from engine.wasm.capi.wasmtime import Instance


class Invocation:
    """One request's use of a component. Poll and close as a `Future`."""

    def __init__(self, context: int, program: LinkedComponent, arguments: Callable[[], bytes]) -> None:
        """Begin in the store of `context`; `arguments` are asked for when there is an instance."""
        self._program = program
        self._arguments = arguments
        self._instance = Instance(context)
        self._call = self._instance.instantiate(program.linker, program.component)
        self._handling = False
        self._error_text: str | None = None

    def poll(self) -> bool:
        """Run guest code until all of it ends (`True`), waits in a host call, or an epoch passes (`False`).

        Raises `AbiError` where the handler can not be called.
        """
        if not self._call.poll():
            return False
        if not self._handling:
            self._error_text = self._call.close()
            if self._error_text is not None:
                return True
            program, self._handling = self._program, True
            self._call = self._instance.call(program.handle, self._arguments(), returns_u32=program.metered)
            return self._call.poll()
        return True

    def close(self) -> str | None:
        """End it where it stands and free it; return the text of its error, if it had one."""
        return self._call.close() or self._error_text

    @property
    def peak_memory(self) -> int | None:
        """Bytes of all memories after the handler has returned; `None` where they are not known."""
        pages = self._call.result_u32
        return None if pages is None else pages * PAGE_BYTES
