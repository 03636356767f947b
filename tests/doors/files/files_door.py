"""An open files Door over a folder, and requests to it."""

import json
from collections.abc import AsyncGenerator, AsyncIterable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from doors.files.door import FilesDoor, ProjectFiles
from doors.tables.project_database import ProjectDatabase
from engine.bucket.blobs import FolderBlobs
from engine.door import Caller, DoorContext, DoorRequest, DoorStorage, Session

CALLER = Caller("api", "request-1", deployment="d1")
DAY_NS = 86_400 * 10**9


@dataclass
class Answer:
    """A complete response."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        return str(self.document["code"])


class Files:
    """The files of the project `shop`, whose data is in a folder."""

    def __init__(self, folder: Path, database: Callable[[Path], Any] = ProjectDatabase) -> None:
        self.folder = folder
        self.blobs = FolderBlobs(folder)
        storage = DoorStorage(self.blobs, b"secret")
        context = DoorContext("shop", folder / "files", lambda entry: None, storage=storage)
        self.door: ProjectFiles = FilesDoor(database).open(context)

    async def ask(
        self,
        method: str,
        path: str,
        body: bytes | AsyncIterable[bytes] = b"",
        *,
        client: bool = False,
        caller: Caller = CALLER,
        session: Session | None = None,
        **headers: str,
    ) -> Answer:
        """Send a request. Underscores of header names stand for dashes."""
        path, _, query = path.partition("?")
        request = DoorRequest(
            method,
            path,
            query=query,
            headers=tuple((name.replace("_", "-"), value.encode()) for name, value in headers.items()),
            body=b"",
            caller=caller,
            session=session or Session(),
            stream=aiter(pieces(body) if isinstance(body, bytes) else body),
            client=client,
        )
        answer = await self.door.answer(request)
        content = answer.body
        if answer.stream is not None:
            content = b"".join([chunk async for chunk in answer.stream])
        return Answer(
            answer.status, {name: value.decode("latin-1") for name, value in answer.headers}, content
        )

    async def put(self, key: str, body: bytes, **headers: str) -> Answer:
        return await self.ask("PUT", f"/v1/files/{key}", body, **headers)

    async def get(self, key: str, **headers: str) -> Answer:
        return await self.ask("GET", f"/v1/files/{key}", **headers)

    async def content(self, key: str) -> bytes | None:
        """Return the bytes of a file, None if there is none."""
        answer = await self.get(key)
        assert answer.status in (200, 404)
        return answer.body if answer.status == 200 else None

    def stored(self) -> set[str]:
        """Return the digests of all blobs."""
        folder = self.folder / "blobs"
        return {path.name for path in folder.iterdir()} if folder.exists() else set()


async def pieces(body: bytes, size: int = 100_000) -> AsyncGenerator[bytes, None]:
    """Yield a body in parts."""
    for start in range(0, len(body), size):
        yield body[start : start + size]


async def broken(body: bytes) -> AsyncGenerator[bytes, None]:
    """Yield a body whose sender leaves before its end."""
    yield body
    raise ConnectionError("the client left")
