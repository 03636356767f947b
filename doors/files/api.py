"""The routes of a project's files, and their roles: a viewer lists and reads them, a deployer writes them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field
from quart import Response, request

from doors.files.store import MAX_PAGE, FileDocument, FileList, FileStore
from engine.control.app import Routes, principal
from engine.control.schemas import QueryModel

MEDIA_TYPE = "application/octet-stream"


class ListQuery(QueryModel):
    """The keys to list: those with a prefix, from `cursor` of the page before on.

    Keys with the delimiter after the prefix are listed once, by the part up to it.
    """

    prefix: str = ""
    delimiter: Annotated[str, Field(pattern="^[ -~]*$")] = ""
    cursor: str = ""
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = MAX_PAGE


class KeyQuery(QueryModel):
    """A key, and the content type to store with it (default: none)."""

    key: str
    type: str = ""


class PrefixQuery(QueryModel):
    """The prefix of keys (default: all)."""

    prefix: str = ""


@dataclass(frozen=True, slots=True)
class FileUsage:
    """The number of files and their bytes. `limit` is the quota of the project in bytes, if it has one."""

    files: int
    bytes: int
    limit: int | None


@dataclass(frozen=True, slots=True)
class FileRemoved:
    """Whether the file existed."""

    removed: bool


def blueprint(store_of: Callable[[str], FileStore]) -> Routes:
    """Return the routes. `store_of` returns the files of a project. Raises `SvcError` for an unknown one."""
    routes = Routes("files", __name__)
    base = "/v1/projects/<project>/files"

    @routes.get(base, "viewer")
    async def list_files(project: str, query_args: ListQuery) -> FileList:
        """List files in the order of the bytes of their keys; needs the role viewer."""
        return await store_of(project).list(**query_args.model_dump())

    @routes.get(f"{base}/usage", "viewer")
    async def usage(project: str, query_args: PrefixQuery) -> FileUsage:
        """Count files and their bytes; needs the role viewer."""
        store = store_of(project)
        return FileUsage(*await store.usage(query_args.prefix), store.limit)

    @routes.get(f"{base}/content", "viewer", sends=[MEDIA_TYPE])
    async def read(project: str, query_args: KeyQuery) -> Response:
        """Return the bytes of a file; needs the role viewer."""
        store = store_of(project)
        file = await store.find(query_args.key)
        response = Response(await store.read(file, 0, file.size), content_type=MEDIA_TYPE)
        response.headers["content-length"] = str(file.size)
        return response

    @routes.put(f"{base}/content", "deployer", takes=MEDIA_TYPE)
    async def write(project: str, query_args: KeyQuery) -> FileDocument:
        """Store the body as a file; needs the role deployer."""
        fields = {"content-type": query_args.type} if query_args.type else {}
        length, user, store = request.content_length, principal().name, store_of(project)
        file = await store.put(
            query_args.key, request.body, lambda _: None, fields=fields, metadata={}, length=length, by=user
        )
        return file.describe()

    @routes.delete(f"{base}/content", "deployer")
    async def remove(project: str, query_args: KeyQuery) -> FileRemoved:
        """Remove a file; needs the role deployer."""
        removed = store_of(project).delete(query_args.key, lambda _: None, principal().name)
        return FileRemoved(await removed)

    return routes
