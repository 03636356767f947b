"""The files Door: streams of large objects over HTTP, and their delivery to clients by the host.

The engine marks requests of clients. They get a file that a guest has named (`x-svc-file`), or have a signed
URL: a permission to read or write one file until a moment, for clients without an account.
"""

import hashlib
import hmac
import json
import re
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from email.utils import formatdate
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, quote, unquote_to_bytes, urlencode

from doors.files.store import KINDS, MAX_BYTES, Check, Database, FileError, FileStore, StoredFile, check_key
from engine.door import Door, DoorContext, DoorRequest, DoorResponse, Headers, Session, problem_response
from engine.errors import SvcError
from engine.static_files.conditions import byte_range, matches, none_match
from engine.static_files.content_type import content_type

PATH = "/v1/files/"
SIGNED_PATH = "/.svc/files/"
"""Path of signed URLs, at each public host of the project."""
MAX_SECONDS = 7 * 86_400
"""Longest validity of a URL."""
_NUMBER = re.compile(r"[0-9]{1,15}", re.ASCII)
FIELDS = (
    "content-type", "content-disposition", "content-encoding", "content-language", "cache-control", "expires",
)  # fmt: skip
"""Header fields of a PUT that are stored, and sent with the file."""
METADATA = "x-svc-meta"
"""Header field with the metadata of a file, as a JSON object of texts."""
MAX_DOCUMENT = 16 << 10
_METHODS = {"/v1/files": ("GET",), "/v1/copy": ("POST",), "/v1/sign": ("POST",)}
_FILE_METHODS = ("GET", "HEAD", "PUT", "DELETE")
_SHOWN = re.compile(r"(image|audio|video)/(?!svg|[\w.+-]*xml)[\w.+-]+|application/pdf|text/plain", re.ASCII)
"""Content types that browsers show without running scripts."""


class FilesDoor(Door):
    """The Door `files`."""

    name = "files"
    purpose = "files of up to 5 GiB, sent by the host"
    pages = ("guides/build/uploads.md", "reference/files-api.md")
    unit = "file"
    variables = ("SVC_FILES_ENDPOINT",)
    max_body = MAX_BYTES
    problems = KINDS
    streams = True

    def __init__(self, database_of: Callable[[Path], Database]) -> None:
        """`database_of` returns the tables database of a data folder."""
        self._database_of = database_of

    def open(self, context: DoorContext) -> "ProjectFiles":
        assert context.storage is not None
        store = FileStore(self._database_of(context.folder.parent), context.storage.blobs)
        return ProjectFiles(store, project_key(context.storage.secret, context.project))


class ProjectFiles:
    """The Door of one project. It implements `engine.door.OpenDoor`."""

    def __init__(self, store: FileStore, key: bytes) -> None:
        """`key` signs URLs."""
        self.store, self.limit, self._key = store, store.limit_to, key

    async def aclose(self) -> None:
        """Refuse to store files. No file is open between requests."""
        self.store.is_closed = True

    async def answer(self, request: DoorRequest) -> DoorResponse:
        try:
            if request.client and request.path.startswith(SIGNED_PATH):
                return await self._answer_signed(request)
            if request.path.startswith(PATH):
                return await self._answer_file(request, _key(request.path.removeprefix(PATH)))
            methods = _METHODS.get(request.path)
            if methods is None:
                message = f"{request.path} does not exist"
                raise FileError(message, f"Available: {PATH}KEY, {', '.join(_METHODS)}.", code="not-found")
            _require_method(request, methods)
            if request.path == "/v1/files":
                return await self._list(request)
            document = await _document(request)
            if request.path == "/v1/sign":
                url = sign(self._key, permission_of(document))
                return DoorResponse(200, json.dumps({"url": url}).encode())
            source, target = document.get("from"), document.get("to")
            if type(source) is not str or type(target) is not str:
                hint = 'Send {"from": "…", "to": "…"}.'
                raise FileError("from or to is not a key", hint, code="bad-request")
            return _stored(await self.store.copy(source, target, _condition(request), request.caller))
        except SvcError as error:
            if request.call is not None:
                request.call.code = error.code
            return _problem(error, request)
        except ConnectionError:
            incomplete = FileError("the body ended early; nothing was stored", code="incomplete")
            return _problem(incomplete, request)
        finally:
            if request.method not in ("GET", "HEAD"):
                request.session.written = max(request.session.written, self.store.written())

    async def _answer_file(self, request: DoorRequest, key: str) -> DoorResponse:
        _require_method(request, ("GET", "HEAD") if request.client else _FILE_METHODS)
        if request.method == "PUT":
            return await self._put(request, key, _condition(request))
        if request.method == "DELETE":
            await self.store.delete(key, _condition(request), request.caller)
            return DoorResponse(204, headers=())
        return await self._send(request, await self.store.find(key, _stale(request)))

    async def _answer_signed(self, request: DoorRequest) -> DoorResponse:
        key = _key(request.path.removeprefix(SIGNED_PATH))
        permission = verify(self._key, key, request.query, request.method)
        if permission.method == "GET":
            return await self._send(request, await self.store.find(key, _stale(request)))
        kind = request.header("content-type")
        if permission.type not in ("", kind):
            message = f"the signed URL permits content-type {permission.type}, not {kind or 'none'}"
            raise FileError(message, code="bad-signature")
        check = _absent if permission.once else _condition(request)
        return await self._put(request, key, check, permission.max)

    async def _put(
        self, request: DoorRequest, key: str, check: Check, max_bytes: int = MAX_BYTES
    ) -> DoorResponse:
        length = request.header("content-length")
        if length and not re.fullmatch("[0-9]{1,15}", length, re.ASCII):
            raise FileError(f"content-length is {length[:40]!r}", code="bad-request")
        file = await self.store.put(
            key,
            request.stream if request.stream is not None else _nothing(),
            check,
            fields={name: value for name in FIELDS if (value := request.header(name))},
            metadata={} if request.client else _metadata(request.header(METADATA)),
            length=int(length) if length else None,
            max_bytes=max_bytes,
            by=request.caller,
        )
        return _stored(file)

    async def _list(self, request: DoorRequest) -> DoorResponse:
        asked = dict(parse_qsl(request.query, keep_blank_values=True))
        # The store limits the length of a page.
        options = {"prefix": "", "delimiter": "", "cursor": "", "limit": "9" * 9} | asked
        prefix, delimiter, cursor, limit, *unknown = options.values()
        if unknown or not delimiter.isascii() or not re.fullmatch("[1-9][0-9]{0,8}", limit):
            hint = "Available: prefix, delimiter (ASCII), cursor, limit (a number from 1)."
            raise FileError("an option of the listing is not valid", hint, code="bad-request")
        document = asdict(await self.store.list(prefix, delimiter, cursor, int(limit), _stale(request)))
        if document["cursor"] is None:
            del document["cursor"]
        return DoorResponse(200, json.dumps(document, ensure_ascii=False).encode())

    async def _send(self, request: DoorRequest, file: StoredFile) -> DoorResponse:
        """Return a file, or a range of it (RFC 9110)."""
        etag, size = file.etag.encode(), file.size
        lean = {"etag": file.etag, "last-modified": formatdate(file.modified_ms / 1000, usegmt=True)}
        if (condition := request.header("if-match")) and not matches(condition.encode(), etag):
            raise FileError(f"the file {file.key!r} has the etag {file.etag}", code="precondition")
        if (condition := request.header("if-none-match")) and none_match(condition.encode(), etag):
            return DoorResponse(304, headers=_encoded(lean))
        status, span = 200, (0, size)
        fresh = request.header("if-range").strip() in ("", file.etag)
        if request.method == "GET" and fresh and (header := request.header("range")):
            requested = byte_range(header.encode(), size)
            if requested == "unsatisfiable":
                refused = _problem(FileError(f"the file has {size} bytes", code="range"), request)
                return replace(refused, headers=(*refused.headers, ("content-range", b"bytes */%d" % size)))
            if requested is not None:
                status, span = 206, requested
        start, stop = span
        headers = lean | {"accept-ranges": "bytes", "content-length": str(stop - start)}
        if status == HTTPStatus.PARTIAL_CONTENT:
            headers["content-range"] = f"bytes {start}-{stop - 1}/{size}"
        if request.client:
            headers |= _for_clients({"content-type": content_type(file.key), **file.header_fields})
        else:
            headers |= {"content-type": "application/octet-stream", **file.header_fields}
            headers[METADATA] = json.dumps(json.loads(file.metadata))
        content = await self.store.read(file, start, stop) if request.method == "GET" else _nothing()
        return DoorResponse(status, headers=_encoded(headers), stream=content)


def _encoded(fields: Mapping[str, str]) -> Headers:
    return tuple((name, value.encode("latin-1", "replace")) for name, value in fields.items())


def _problem(error: SvcError, request: DoorRequest) -> DoorResponse:
    """Return the problem document of an error. Codes of other modules have the status of their kind."""
    code = {"blob-damaged": "file-damaged", "blob-missing": "file-damaged"}.get(error.code, error.code)
    code = code if code in KINDS else "storage"
    members = {"request_id": request.caller.request_id}
    if error.hint and isinstance(error, FileError):
        members["hint"] = error.hint
    return problem_response(KINDS[code].status, f"files:{code}", error.public_message, members)


def _stored(file: StoredFile) -> DoorResponse:
    headers = (("content-type", b"application/json"), ("etag", file.etag.encode()))
    return DoorResponse(201, json.dumps(asdict(file.describe()), ensure_ascii=False).encode(), headers)


def _for_clients(fields: dict[str, str]) -> dict[str, str]:
    """Return header fields with which a file of a stranger does no harm on the origin of the site."""
    fields = {"cache-control": "private, no-cache", **fields, "x-content-type-options": "nosniff"}
    # Browsers use the last valid one of several types that commas separate.
    kinds = [each.partition(";")[0].strip(" \t").lower() for each in fields["content-type"].split(",")]
    types = [kind for kind in kinds if "/" in kind]
    if not types or not all(map(_SHOWN.fullmatch, types)):
        fields["content-security-policy"] = "default-src 'none'; sandbox"
        if not fields.get("content-disposition", "").lower().startswith("attachment"):
            fields["content-disposition"] = "attachment"
    return fields


def _key(path: str) -> str:
    try:
        return unquote_to_bytes(path).decode()
    except UnicodeDecodeError:
        raise FileError("the key is not UTF-8", "Percent-encode its UTF-8 bytes.", code="bad-key") from None


def _stale(request: DoorRequest) -> Session | None:
    """Return the session of a stale read of the index."""
    return request.session if request.caller.stale_reads else None


def _require_method(request: DoorRequest, methods: tuple[str, ...]) -> None:
    if request.method not in methods:
        message = f"{request.path[:200]} has no {request.method}"
        raise FileError(message, f"Use {', '.join(methods)}.", code="method-not-allowed")


def _condition(request: DoorRequest) -> Check:
    """Return the check of `if-match` and `if-none-match` of a request that writes."""
    match, none = request.header("if-match").encode(), request.header("if-none-match").encode()

    def check(file: StoredFile | None) -> None:
        if match and (file is None or not matches(match, file.etag.encode())):
            state = f"has the etag {file.etag}" if file is not None else "does not exist"
            raise FileError(f"the file {state}; nothing was changed", code="precondition")
        if none and file is not None and none_match(none, file.etag.encode()):
            raise FileError("the file exists; nothing was changed", code="precondition")

    return check


def _absent(file: StoredFile | None) -> None:
    if file is not None:
        raise FileError("the file exists: the signed URL was used before", code="precondition")


def _metadata(text: str) -> dict[str, str]:
    values = _object(text or "{}", METADATA)
    if not all(type(each) is str for each in values.values()):
        raise FileError(f"{METADATA} is not a JSON object of texts", code="bad-request")
    return values


def _object(text: str | bytes, name: str) -> dict[str, Any]:
    """Return a JSON object whose texts UTF-8 can encode. Raises `FileError`."""
    with suppress(ValueError, RecursionError):
        document = json.loads(text)
        json.dumps(document, ensure_ascii=False).encode()
        if type(document) is dict:
            return document
    message = f"{name} is not a JSON object, or has half of a surrogate pair"
    raise FileError(message, code="bad-request")


async def _document(request: DoorRequest) -> dict[str, Any]:
    text = b""
    async for chunk in request.stream if request.stream is not None else _nothing():
        text += chunk
        if len(text) > MAX_DOCUMENT:
            raise FileError(f"the body has more than {MAX_DOCUMENT} bytes", code="too-large")
    return _object(text, "the body")


async def _nothing() -> AsyncGenerator[bytes, None]:
    return
    yield b""


class Permission(NamedTuple):
    """Permission of a signed URL: `GET`, which includes HEAD, or `PUT`, until `expires` (Unix time).

    A PUT has at most `max` bytes, the content type `type` if that is not empty, and with `once` creates the
    file, so that a second one fails.
    """

    key: str
    method: str
    expires: int
    max: int = MAX_BYTES
    type: str = ""
    once: int = 0


def project_key(secret: bytes, project: str) -> bytes:
    return hmac.new(secret, f"files\n{project}".encode(), hashlib.sha256).digest()


def sign(key: bytes, permission: Permission) -> str:
    """Return the path and query of a signed URL."""
    members = permission._asdict() | {"signature": _signature(key, permission)}
    return f"{SIGNED_PATH}{quote(members.pop('key'), safe='/')}?{urlencode(members)}"


def verify(key: bytes, file: str, query: str, method: str) -> Permission:
    """Return the permission of a request to a signed URL. Raises `FileError`."""
    members = dict(parse_qsl(query, keep_blank_values=True))
    signature = members.pop("signature", "")
    numbers = [members.get(name, "") for name in ("expires", "max", "once")]
    if not all(map(_NUMBER.fullmatch, numbers)) or members.keys() | {"key"} != {*Permission._fields}:
        raise _denied("it is not one that files.sign has returned")
    expires, most, once = map(int, numbers)
    permission = Permission(check_key(file), members["method"], expires, most, members["type"], once)
    if not hmac.compare_digest(_signature(key, permission).encode(), signature.encode()):
        raise _denied("it was altered, or signed by another service")
    if time.time() >= expires:
        raise _denied("it has expired")
    if method != permission.method and (method, permission.method) != ("HEAD", "GET"):
        raise _denied(f"it permits {permission.method}, not {method}")
    return permission


def _signature(key: bytes, permission: Permission) -> str:
    return hmac.new(key, urlencode(permission._asdict()).encode(), hashlib.sha256).hexdigest()


def _denied(reason: str) -> FileError:
    return FileError(f"the signed URL is not valid: {reason}", "Request a new one.", code="bad-signature")


def permission_of(document: Mapping[str, object]) -> Permission:
    """Return the permission that a guest asks for. Raises `FileError`."""
    known = {"key": "", "method": "GET", "expires_s": 600, "max_bytes": MAX_BYTES, "type": "", "once": False}
    wrong = [name for name, value in document.items() if type(value) is not type(known.get(name, ...))]
    if "key" not in document or wrong:
        message, hint = f"the body has no valid {[*wrong, 'key'][0]}", f"Its members are {', '.join(known)}."
        raise FileError(message, hint, code="bad-request")
    values: dict[str, Any] = {**known, **document}
    seconds, most, method = values["expires_s"], values["max_bytes"], values["method"]
    if method not in ("GET", "PUT"):
        raise FileError(f"method is {method!r}", "Use GET or PUT.", code="bad-request")
    if not (1 <= seconds <= MAX_SECONDS and 0 <= most <= MAX_BYTES):
        hint = f"Use 1 to {MAX_SECONDS} seconds and up to {MAX_BYTES} bytes."
        raise FileError("expires_s or max_bytes is out of range", hint, code="bad-request")
    expires, once = int(time.time()) + seconds, int(values["once"])
    return Permission(check_key(values["key"]), method, expires, most, values["type"], once)
