"""Thread that frees the memory of finished instances.

Closing a store takes a fifth of a short run's time, all inside wasmtime without the GIL, so the event loop
passes the store to a thread. It does so when the next run starts, or after a short delay if none starts: at
the end of a run, the client needs the processor to read the response and send the next request. Instances
with little memory are closed at once, because passing the GIL between two threads would cost more. If the
thread falls behind, the loop closes stores itself, so finished instances never hold more than `MAX_BACKLOG`
slots.
"""

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue

from engine.wasm.capi.wasmtime import Store

MAX_BACKLOG = 4
SMALL_BYTES = 4 << 20
"""An instance with at most this much memory is closed at once."""
MAX_HOLD_SECONDS = 0.005
"""How long a store is held for the next run to start."""


class Reclaimer:
    """Closes stores. Use it on the event loop's thread; call `close` once per store."""

    def __init__(self) -> None:
        self._deferred: list[tuple[Store, Callable[[], object] | None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._stores: SimpleQueue[tuple[Store, Callable[[], object] | None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="reclaimer", daemon=True)
        self._thread.start()

    def close(self, store: Store, memory: int | None, on_closed: Callable[[], object] | None = None) -> None:
        """Close a store soon. It must not be used afterwards. `memory` is its size in bytes, if known.

        `on_closed` is called afterwards, on the loop's thread or on another.
        """
        small = memory is not None and memory <= SMALL_BYTES
        if small or len(self._deferred) + self._stores.qsize() >= MAX_BACKLOG - 1:
            _close(store, on_closed)
            return
        self._deferred.append((store, on_closed))
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(MAX_HOLD_SECONDS, self._on_timeout)

    def flush(self) -> None:
        """Pass the held stores to the thread; called when a run starts."""
        while self._deferred:
            self._stores.put(self._deferred.pop())

    def _on_timeout(self) -> None:
        self._timer = None
        self.flush()

    def _work(self) -> None:
        while (closing := self._stores.get()) is not None:
            _close(*closing)

    def stop(self) -> None:
        """Close the remaining stores and stop the thread."""
        if self._timer is not None:
            self._timer.cancel()
        self.flush()
        self._stores.put(None)
        self._thread.join()


def _close(store: Store, on_closed: Callable[[], object] | None) -> None:
    store.close()
    if on_closed is not None:
        on_closed()
