"""Threads that free the memory of finished instances.

Closing a store takes a fifth of a short run's time, all inside wasmtime without the GIL, so the event loop
passes the store to a thread. It does so when the next run starts, or after a short delay if none starts: at
the end of a run, the client needs the processor to read the response and send the next request. Instances
with little memory are closed at once, because passing the GIL between two threads would cost more. If the
thread falls behind, the loop closes stores itself, so finished instances never hold more than `MAX_BACKLOG`
slots. Instances that took much memory have a thread of their own, and their slots until they are closed.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

from engine.confinement import yield_to_loop
from engine.wasm.capi.wasmtime import Store

MAX_BACKLOG = 4
SMALL_BYTES = 4 << 20
"""An instance with at most this much memory is closed at once."""
MAX_HOLD_SECONDS = 0.005
"""How long a store is held for the next run to start."""


class Reclaimer:
    """Closes stores. Use it on the event loop's thread; pass each store once."""

    def __init__(self) -> None:
        self._deferred: list[Store] = []
        self._timer: asyncio.TimerHandle | None = None
        self._stores: SimpleQueue[Store | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="reclaimer", daemon=True)
        self._thread.start()
        self._large = ThreadPoolExecutor(1, "reclaimer-large", initializer=yield_to_loop)

    def close(self, store: Store, memory: int | None) -> None:
        """Close a store soon. It must not be used afterwards. `memory` is its size in bytes, if known."""
        small = memory is not None and memory <= SMALL_BYTES
        if small or len(self._deferred) + self._stores.qsize() >= MAX_BACKLOG - 1:
            store.close()
            return
        self._deferred.append(store)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(MAX_HOLD_SECONDS, self._on_timeout)

    def close_large(self, store: Store, on_closed: Callable[[], object]) -> None:
        """Close a store on another thread, and then call a function on that thread."""

        def close() -> None:
            store.close()
            on_closed()

        self._large.submit(close)

    def flush(self) -> None:
        """Pass the held stores to the thread; called when a run starts."""
        while self._deferred:
            self._stores.put(self._deferred.pop())

    def _on_timeout(self) -> None:
        self._timer = None
        self.flush()

    def _work(self) -> None:
        while (store := self._stores.get()) is not None:
            store.close()

    def stop(self) -> None:
        """Close the remaining stores and stop the threads."""
        if self._timer is not None:
            self._timer.cancel()
        self.flush()
        self._stores.put(None)
        self._thread.join()
        self._large.shutdown()
