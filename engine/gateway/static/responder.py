"""Responses for the files of a static resource (RFC 9110).

Covers methods, content codings, conditions, ranges, redirects and the `spa` rule. The gateway sends the 404.
"""

from urllib.parse import unquote

from engine.artifact import FolderArtifact, StaticBundle
from engine.gateway.static.body import BodyCache, FileChanged, FileStream
from engine.gateway.static.conditional import byte_range, matches, none_match
from engine.gateway.static.file import FolderRedirect, Header, Representation, StaticFile
from engine.gateway.static.negotiation import choose
from engine.gateway.static.source import CACHE_BYTES, INDEX_PAGE, SMALL_FILE_BYTES, BundleSource, FolderSource
from engine.gateway.static.url_path import relative_name, url_path
from engine.http.exchange import Exchange

_READ_HEADERS = frozenset(
    {b"accept", b"accept-encoding", b"if-match", b"if-none-match", b"if-range", b"range"}
)
_ATTEMPTS = 3


class StaticResponder:
    """A live version of a static resource.

    Created on any thread; `respond` runs on the event loop. Raises `BundleCorrupt` if the image cannot be
    read.
    """

    def __init__(self, artifact: FolderArtifact | StaticBundle, spa: bool = False) -> None:
        """With `spa`, a navigation to a path without a file is answered with `/index.html`."""
        self._source: FolderSource | BundleSource = (
            FolderSource(artifact) if isinstance(artifact, FolderArtifact) else BundleSource(artifact)
        )
        self._spa = spa
        self._bodies = BodyCache(SMALL_FILE_BYTES, CACHE_BYTES)

    async def respond(self, exchange: Exchange) -> tuple[int, int] | None:
        """Send the response for a request; return its status and the number of body bytes sent.

        Returns `None`, with nothing sent, if no file matches. Raises `FileChanged` if the announced bytes
        can no longer be sent, and `OSError` if a blob of an image is missing.
        """
        request = exchange.request
        fields: dict[bytes, bytes] = {}
        for key, value in request.headers:
            if key in _READ_HEADERS:
                fields[key] = fields[key] + b", " + value if key in fields else value
        for attempt in range(1, _ATTEMPTS + 1):
            file, varies = self._find(request.path, request.method, fields)
            if file is None:
                return None
            if request.method not in ("GET", "HEAD"):
                text = "Only GET and HEAD are allowed here."
                return await _send_text(exchange, 405, text, (b"allow", b"GET, HEAD"))
            if isinstance(file, FolderRedirect):
                query = b"?" + request.query if request.query else b""
                location = url_path(file.name).encode() + b"/" + query
                return await _send_text(exchange, 308, "", (b"location", location))
            try:
                return await self._respond_with(exchange, file, fields, varies=varies)
            except _NothingSent as error:
                if attempt == _ATTEMPTS:
                    raise error.cause from None
        raise AssertionError("the last attempt returns or raises")

    def _find(
        self, path: str, method: str, fields: dict[bytes, bytes]
    ) -> tuple[StaticFile | FolderRedirect | None, bool]:
        """Return the file for a URL path, and whether the choice depends on the `accept` header."""
        name = relative_name(path)
        file = self._source.find(name) if name is not None else None
        if file is not None or not self._spa or method not in ("GET", "HEAD"):
            return file, False
        hidden = name is None and "/." in unquote(path)
        if hidden or "." in unquote(path.rpartition("/")[2]):
            return None, False
        if b"text/html" not in fields.get(b"accept", b"").lower():
            return None, False
        return self._source.find(INDEX_PAGE), True

    async def _respond_with(
        self, exchange: Exchange, file: StaticFile, fields: dict[bytes, bytes], *, varies: bool
    ) -> tuple[int, int]:
        """Select a representation and a range of it, and send it."""
        accepted = fields.get(b"accept-encoding")
        coding = choose(accepted, file.sizes)
        extra: tuple[Header, ...] = ((b"vary", b"accept"),) if varies else ()
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
            return await _send(exchange, 304, [*representation.lean_headers, *extra], b"")
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
        if status == 206:
            headers.append((b"content-range", b"bytes %d-%d/%d" % (start, stop - 1, representation.size)))
        if exchange.request.method == "HEAD":
            return await _send(exchange, status, headers, b"")
        body = self._bodies.get(representation)
        if body is not None:
            return await _send(exchange, status, headers, body if status == 200 else body[start:stop])
        try:
            stream = FileStream(representation)
        except (OSError, FileChanged) as error:
            raise _NothingSent(error) from error
        try:
            await exchange.send_head(status, headers)
            return status, await stream.send(start, stop, exchange)
        finally:
            stream.close()


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
