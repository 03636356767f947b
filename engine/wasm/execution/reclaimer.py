"""Gives the memory of finished instances back, on a thread of its own where there is much of it.

Closing a store takes a fifth of a short run's time, all of it inside the library without the GIL: so the
event loop hands the store over and goes on with the next request. It does so when the next one has begun,
or after a while in which none has: at a run's end its client wants the processor, to read the answer and
to ask again. Where an instance has little memory, two threads that pass the GIL to and fro cost more than
that. When the thread falls behind, the loop closes stores itself, so that no more than `BACKLOG` slots are
ever held by instances that are gone.
"""

import asyncio
import threading
from queue import SimpleQueue

from engine.wasm.capi.wasmtime import Store

MAX_BACKLOG = 4
SMALL_BYTES = 4 << 20
"""Memory of an instance that is given back at once, in bytes."""
MAX_HOLD_SECONDS = 0.005
"""How long a store is held at most for the next run to begin."""


class Reclaimer:
    """Closes stores. Use it on the event loop's thread, `close` once a store."""

    def __init__(self) -> None:
        self._held: list[Store] = []
        self._timer: asyncio.TimerHandle | None = None
        self._stores: SimpleQueue[Store | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="reclaimer", daemon=True)
        self._thread.start()

    def close(self, store: Store, memory: int | None) -> None:
        """Close a store soon; nothing may use it any more. `memory` is what it has, in bytes, if known."""
        little = memory is not None and memory <= SMALL_BYTES
        if little or len(self._held) + self._stores.qsize() >= MAX_BACKLOG - 1:
            store.close()
            return
        self._held.append(store)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(MAX_HOLD_SECONDS, self._on_timeout)

    def flush(self) -> None:
        """Let the thread close what is held: a run begins."""
        while self._held:
            self._stores.put(self._held.pop())

    def _on_timeout(self) -> None:
        self._timer = None
        self.flush()

    def _work(self) -> None:
        while (store := self._stores.get()) is not None:
            store.close()

    def stop(self) -> None:
        """Close what is left and end the thread."""
        if self._timer is not None:
            self._timer.cancel()
        self.flush()
        self._stores.put(None)
        self._thread.join()
