"""Responses for the files of a static resource (RFC 9110).

Covers methods, content codings (12.5.3), conditions and ranges (13, 14), redirects and the `spa` rule. The
gateway sends the 404. Small bodies are cached, large ones are streams. Exactly the announced bytes are sent,
or `FileChanged` is raised so that the response is aborted.
"""

import asyncio
import os
import re
from collections import OrderedDict
from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import quote, unquote, unquote_to_bytes

from engine.artifact import FolderArtifact, StaticBundle
from engine.gateway.static.source import (
    CACHE_BYTES,
    INDEX_PAGE,
    SMALL_FILE_BYTES,
    BundleSource,
    FolderRedirect,
    FolderSource,
    Header,
    Representation,
    StaticFile,
    file_stamp,
    open_file,
)
from engine.http.exchange import Exchange, Request
from engine.manifest.model import Resource
from engine.static_files.bundle import is_servable
from engine.static_files.conditions import byte_range, matches, none_match
from engine.static_files.rules import RULE_FILES, StaticRules

PIECE_BYTES = 64 * 1024
# A hop to a thread costs about as much as reading 64 KiB from the page cache, so each reads several pieces.
_READ_BYTES = 16 * PIECE_BYTES


class FileChanged(Exception):
    """A file was truncated or written while it was sent; the response is incomplete."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} changed while it was being sent")


class BodyCache:
    """A cache of the contents of small files that never change; the least recently used are evicted first."""

    def __init__(self) -> None:
        self._free = CACHE_BYTES
        self._bodies: OrderedDict[str, bytes] = OrderedDict()

    def get(self, representation: Representation) -> bytes | None:
        """Return the content, or `None` if it has to be streamed. Raises `OSError` and `FileChanged`."""
        if representation.body is not None:
            return representation.body
        if representation.stamp is not None or representation.size > SMALL_FILE_BYTES:
            return None
        path = representation.path
        body = self._bodies.get(path)
        if body is not None:
            self._bodies.move_to_end(path)
            return body
        with open_file(path) as file:
            body = file.read(representation.size + 1)
        if len(body) != representation.size:
            raise FileChanged(path)
        self._bodies[path] = body
        self._free -= len(body)
        while self._free < 0:
            self._free += len(self._bodies.popitem(last=False)[1])
        return body


class FileStream:
    """A large file, opened before the head is sent so that its length is still true."""

    def __init__(self, representation: Representation) -> None:
        """Open the file. Raises `OSError` if it is missing, `FileChanged` if it was replaced."""
        self._path = representation.path
        self._stamp = representation.stamp
        self._file = open_file(self._path)
        self.close = self._file.close
        if self._changed() or os.fstat(self._file.fileno()).st_size != representation.size:
            self.close()
            raise FileChanged(self._path)

    def _changed(self) -> bool:
        # Only the size and the time of the last write: the rest also changes when the name is removed.
        return self._stamp is not None and file_stamp(os.fstat(self._file.fileno()))[2:4] != self._stamp[2:4]

    async def send(self, start: int, stop: int, exchange: Exchange) -> int:
        """Send the bytes from `start` up to `stop` and end the response; return how many were sent.

        Stops early when the client disconnects. Raises `FileChanged`.
        """
        offset, unsent = start, exchange.unsent
        try:
            while offset < stop:
                size = unsent.read_ahead(min(_READ_BYTES, stop - offset))
                block = await asyncio.to_thread(os.pread, self._file.fileno(), size, offset)
                if not block or self._changed():
                    raise FileChanged(self._path)
                for begin in range(0, len(block), PIECE_BYTES):
                    if exchange.disconnected.is_set():
                        return offset - start
                    piece = block[begin : begin + PIECE_BYTES]
                    offset += len(piece)
                    await exchange.send_body(piece, end=offset == stop)
                unsent.release(size)
        finally:
            unsent.release(_READ_BYTES)
        return offset - start


_READ_HEADERS = frozenset(
    {b"accept", b"accept-encoding", b"if-match", b"if-none-match", b"if-range", b"range", b"sec-fetch-mode"}
)
_ATTEMPTS = 3


_BAD_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})")


@lru_cache(maxsize=2048)
def relative_name(path: str) -> str | None:
    """Return the file name for a raw URL path (no query), or `None` if no file may be served for it.

    An accepted name contains neither `..`, nor a hidden name, nor an escaped separator. So joining it to a
    folder stays below that folder (symlinks aside). The file system is not read.

    `/a%20b/c` gives `a b/c`, `/a/` gives `a/`, `/` gives the empty string. Percent escapes are decoded
    once. Returns `None` for a bad escape, text that is not UTF-8, an escaped slash, an empty segment, and
    every segment that `is_servable` rejects (`.` and `..` among them).
    """
    if not path.startswith("/"):
        return None
    if path == "/":
        return ""
    if "%" in path and _BAD_ESCAPE.search(path):
        return None
    folder = path.endswith("/")
    segments = []
    for raw in path[1 : -1 if folder else None].split("/"):
        try:
            segment = unquote_to_bytes(raw).decode()
        except UnicodeError:
            return None
        if "/" in segment or not is_servable(segment):
            return None
        segments.append(segment)
    return "/".join(segments) + ("/" if folder else "")


def url_path(name: str) -> str:
    """Return the path of a URL for a relative name: the inverse of `relative_name`."""
    return "/" + quote(name)


def folder_location(request: Request, name: str) -> bytes:
    """Return the URL of a folder with an index page, which ends with a slash."""
    return url_path(name).encode() + b"/" + (b"?" + request.query if request.query else b"")


# `identity` is acceptable even if the header omits it, but ranks behind all codings that it names.
_UNNAMED_IDENTITY = 0.0005
_QVALUE = re.compile(r"0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?")
_ALIASES = {"x-gzip": "gzip", "x-compress": "compress"}


@lru_cache(maxsize=512)
def qualities(header: bytes) -> Mapping[str, float]:
    """Return the weight (0 to 1) of each coding named in an `Accept-Encoding` value; `*` stands for the rest.

    Members with an invalid weight are omitted.
    """
    weights: dict[str, float] = {}
    for member in header.decode("latin-1").split(","):
        coding, *parameters = (part.strip() for part in member.split(";"))
        weight = 1.0
        for parameter in parameters:
            name, _, value = parameter.partition("=")
            if name.strip().lower() == "q":
                weight = float(value) if _QVALUE.fullmatch(value := value.strip()) else -1.0
        if coding and weight >= 0:
            coding = coding.lower()
            weights[_ALIASES.get(coding, coding)] = weight
    return weights


def choose(header: bytes | None, sizes: Mapping[str, int]) -> str | None:
    """Return the best of the codings in `sizes` (coding to bytes), or `None` if the client refuses all.

    The highest weight wins, then the smallest size. Without the header (`None`) it is `identity`.
    """
    if header is None or not header.strip():
        return "identity" if "identity" in sizes else None
    weights = qualities(header)
    rest = weights.get("*", 0.0)
    best, best_key = None, (0.0, 0)
    for coding, size in sizes.items():
        weight = weights.get(coding)
        if weight is None:
            weight = _UNNAMED_IDENTITY if coding == "identity" and "*" not in weights else rest
        key = (weight, -size)
        if weight > 0 and (best is None or key > best_key):
            best, best_key = coding, key
    return best


class StaticResponder:
    """A live version of a static resource.

    Created on any thread; `respond` runs on the event loop. Raises `BundleCorrupt` if the image cannot be
    read, and `BuildFailed` if a rule of the resource is invalid.
    """

    def __init__(self, artifact: FolderArtifact | StaticBundle, resource: Resource) -> None:
        """`resource` has the settings: redirects, headers, `not_found` and `spa`.

        With `spa`, a navigation to a path without a file is answered with `/index.html`. With `fallback`,
        `/about` is answered with `/about.html`, as frameworks name prerendered pages.
        """
        self._source: FolderSource | BundleSource = (
            FolderSource(artifact) if isinstance(artifact, FolderArtifact) else BundleSource(artifact)
        )
        self.rules = StaticRules(resource, self._source.rule_files)
        self._not_found = resource.not_found
        self._spa = resource.spa
        self._pages = bool(resource.fallback)
        self._bodies = BodyCache()

    async def respond(self, exchange: Exchange) -> tuple[int, int] | None:
        """Send the response for a request; return its status and the number of body bytes sent.

        Returns `None`, with nothing sent, if no file matches. Raises `FileChanged` if the announced bytes
        can no longer be sent, and `OSError` if a blob of an image is missing.
        """
        request = exchange.request
        redirect = self.rules.redirect(request.path, request.query)
        if redirect is not None:
            return await _send_text(exchange, redirect[0], "", redirect[1])
        fields: dict[bytes, bytes] = {}
        for key, value in request.headers:
            if key in _READ_HEADERS:
                fields[key] = fields[key] + b", " + value if key in fields else value
        for attempt in range(1, _ATTEMPTS + 1):
            file, varies = self._find(request.path, request.method, fields)
            if file is None and not self._not_found:
                return None
            if file is not None and request.method not in ("GET", "HEAD"):
                text = "Only GET and HEAD are allowed here."
                return await _send_text(exchange, 405, text, (b"allow", b"GET, HEAD"))
            if isinstance(file, FolderRedirect):
                location = folder_location(request, file.name)
                return await _send_text(exchange, 308, "", (b"location", location))
            try:
                if file is None:
                    page = self._source.find(self._not_found) if self._not_found else None
                    if not isinstance(page, StaticFile) or exchange.request.method not in ("GET", "HEAD"):
                        return None
                    coding = choose(fields.get(b"accept-encoding"), page.sizes) or "identity"
                    representation = page.representations[coding]
                    return await self._send_file(exchange, representation, 404, (0, representation.size), ())
                return await self._respond_with(exchange, file, fields, varies=varies)
            except _NothingSent as error:
                if attempt == _ATTEMPTS:
                    raise error.cause from None
        raise AssertionError("the last attempt returns or raises")

    def _find(
        self, path: str, method: str, fields: dict[bytes, bytes]
    ) -> tuple[StaticFile | FolderRedirect | None, bool]:
        """Return the file for a URL path, and whether the choice depends on headers."""
        name = relative_name(path)
        file = self._source.find(name) if name is not None and name not in RULE_FILES else None
        if isinstance(file, FolderRedirect) and self.rules.redirects_folder(path):
            file = self._source.find(f"{file.name}/")
        if file is None and self._pages and name and not name.endswith("/"):
            file = self._source.find(f"{name}.html")
        if file is not None or not self._spa or method not in ("GET", "HEAD"):
            return file, False
        hidden = name is None and "/." in unquote(path)
        if hidden or "." in unquote(path.rpartition("/")[2]):
            return None, False
        accept = fields.get(b"accept", b"*/*").lower()
        loaded_by_page = fields.get(b"sec-fetch-mode", b"navigate") != b"navigate"
        if b"text/html" not in accept and (loaded_by_page or b"*/*" not in accept):
            return None, False
        return self._source.find(INDEX_PAGE), True

    async def _respond_with(
        self, exchange: Exchange, file: StaticFile, fields: dict[bytes, bytes], *, varies: bool
    ) -> tuple[int, int]:
        """Select a representation and a range of it, and send it."""
        accepted = fields.get(b"accept-encoding")
        coding = choose(accepted, file.sizes)
        extra: tuple[Header, ...] = ((b"vary", b"accept, sec-fetch-mode"),) if varies else ()
        if coding is None:
            text = "No representation has an accepted content coding."
            return await _send_text(exchange, 406, text, (b"vary", b"accept-encoding"), *extra)
        representation = file.representations[coding]
        requested, span = fields.get(b"range"), None
        if requested is not None and exchange.request.method == "GET" and choose(accepted, {"identity": 0}):
            identity = file.representations["identity"]
            if fields.get(b"if-range", identity.etag).strip() == identity.etag:
                span = byte_range(requested, identity.size)
        served = representation if span is None else file.representations["identity"]
        if (condition := fields.get(b"if-match")) is not None and not matches(condition, served.etag):
            return await _send_text(exchange, 412, "The file has changed.", *extra)
        condition = fields.get(b"if-none-match")
        if condition is not None and none_match(condition, representation.etag):
            headers = self._with_rules(exchange, [*representation.lean_headers, *extra])
            return await _send(exchange, 304, headers, b"")
        if span == "unsatisfiable":
            length = (b"content-range", b"bytes */%d" % served.size)
            return await _send_text(exchange, 416, "", length, *extra)
        status, span = (200, (0, served.size)) if span is None else (206, span)
        return await self._send_file(exchange, served, status, span, extra)

    async def _send_file(
        self,
        exchange: Exchange,
        representation: Representation,
        status: int,
        span: tuple[int, int],
        extra: tuple[Header, ...],
    ) -> tuple[int, int]:
        start, stop = span
        headers = [*representation.headers, (b"content-length", b"%d" % (stop - start)), *extra]
        headers = self._with_rules(exchange, headers)
        if status == 206:
            headers.append((b"content-range", b"bytes %d-%d/%d" % (start, stop - 1, representation.size)))
        if exchange.request.method == "HEAD":
            return await _send(exchange, status, headers, b"")
        body = self._bodies.get(representation)
        if body is not None:
            return await _send(exchange, status, headers, body[start:stop])
        try:
            stream = FileStream(representation)
        except (OSError, FileChanged) as error:
            raise _NothingSent(error) from error
        try:
            await exchange.send_head(status, headers)
            return status, await stream.send(start, stop, exchange)
        finally:
            stream.close()

    def _with_rules(self, exchange: Exchange, headers: list[Header]) -> list[Header]:
        """Return the fields of a response with those of the rules, which replace equal names."""
        rules = self.rules.fields(exchange.request.path)
        if not rules:
            return headers
        return [*(field for field in headers if field[0] not in rules), *rules.items()]


class _NothingSent(Exception):
    """Nothing was sent: the file was replaced between its lookup and its opening."""

    def __init__(self, cause: OSError | FileChanged) -> None:
        self.cause = cause


async def _send(exchange: Exchange, status: int, headers: list[Header], body: bytes) -> tuple[int, int]:
    await exchange.send_head(status, headers)
    await exchange.send_body(body, end=True)
    return status, len(body)


async def _send_text(exchange: Exchange, status: int, text: str, *headers: Header) -> tuple[int, int]:
    """Send a short text that is not cached."""
    body = f"{text}\n".encode() if text else b""
    defaults = [(b"content-length", b"%d" % len(body)), (b"cache-control", b"no-cache")]
    if body:
        defaults.append((b"content-type", b"text/plain; charset=utf-8"))
    payload = b"" if exchange.request.method == "HEAD" else body
    return await _send(exchange, status, [*headers, *defaults], payload)
