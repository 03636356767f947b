"""Gives the memory of finished instances back, on a thread of its own where there is much of it.

Closing a store takes a fifth of a short run's time, all of it inside the library without the GIL: so the
event loop hands the store over and goes on with the next request. Where an instance has little memory, two
threads that pass the GIL to and fro cost more than that. When the thread falls behind, the loop closes
stores itself, so that no more than `BACKLOG` slots are ever held by instances that are gone.
"""

import threading
from queue import SimpleQueue

from engine.wasm.abi import Store

BACKLOG = 4
LITTLE = 4 << 20
"""Memory of an instance that is given back at once, in bytes."""


class Reclaimer:
    """Closes stores; `close` on the event loop's thread, once a store."""

    def __init__(self) -> None:
        self._stores: SimpleQueue[Store | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="reclaimer", daemon=True)
        self._thread.start()

    def close(self, store: Store, memory: int | None) -> None:
        """Close a store soon; nothing may use it any more. `memory` is what it has, in bytes, if known."""
        if (memory is None or memory > LITTLE) and self._stores.qsize() < BACKLOG - 1:
            self._stores.put(store)
        else:
            store.close()

    def _work(self) -> None:
        while (store := self._stores.get()) is not None:
            store.close()

    def stop(self) -> None:
        """Close what is left and end the thread."""
        self._stores.put(None)
        self._thread.join()
