"""The open database of one project: its writer, its readers and its requests in progress."""

import asyncio
from collections.abc import Awaitable
from pathlib import Path

from doors.tables.guest.protocol import Request
from doors.tables.guest.reader import NotAQuery, Reader
from doors.tables.guest.writer import Writer
from engine.door import DoorResponse


class OpenDatabase:
    """One open database. `answer` runs on the event loop's thread, `close` on any."""

    def __init__(self, path: Path, max_bytes: int) -> None:
        """Open or create the file, which takes milliseconds. Raises `Problem`."""
        self.under_way = 0
        self._writer = Writer(path, max_bytes)
        try:
            self._reader = Reader(path)
        except BaseException:
            self._writer.close()
            raise

    def answer(self, request: Request) -> DoorResponse | Awaitable[DoorResponse]:
        """Answer a request, a short read synchronously. Raises `Problem`; so does the awaitable."""
        if request.kind == "exec":
            return self._counted(self._writer.write(request))
        try:
            answer = self._reader.answer(request)
        except NotAQuery:
            return self._counted(self._writer.write(request))
        return answer if isinstance(answer, DoorResponse) else self._counted(answer)

    def _counted(self, future: "asyncio.Future[DoorResponse]") -> "asyncio.Future[DoorResponse]":
        self.under_way += 1
        future.add_done_callback(self._uncount)
        return future

    def _uncount(self, _future: object) -> None:
        self.under_way -= 1

    def close(self) -> None:
        """Finish writes, stop reads and close the file."""
        self._reader.close()
        self._writer.close()
