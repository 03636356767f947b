"""Answers requests for the files of a static Resource (RFC 9110).

Owns the HTTP semantics: methods, content codings, conditions, ranges, redirects and the `spa` rule.
Finding files is `static_source`'s, sending them `static_body`'s; the 404 page is the gateway's.
"""

from engine.artifact import FolderArtifact, StaticBundle
from engine.gateway.static.body import FileChanged, SmallBodies, Streamed
from engine.gateway.static.conditional import byte_range, none_match
from engine.gateway.static.file import FolderRedirect, Header, Representation, StaticFile
from engine.gateway.static.negotiation import choose
from engine.gateway.static.source import INDEX_PAGE, MEMORY, SMALL, FolderSource, ImageSource
from engine.gateway.static.url_path import relative_name, url_path
from engine.wasm.execution.request import Headers, Receive, Send

_READ_HEADERS = frozenset({b"accept", b"accept-encoding", b"if-none-match", b"if-range", b"range"})
_ATTEMPTS = 3


class StaticResponder:
    """A live version of a static Resource.

    Made on any thread; `respond` runs on the event loop. Raises `BundleCorrupt` when the
    image can not be read.
    """

    def __init__(self, artifact: FolderArtifact | StaticBundle, spa: bool = False) -> None:
        """With `spa`, a navigation that matches no file gets `/index.html` with 200."""
        self._source: FolderSource | ImageSource = (
            FolderSource(artifact) if isinstance(artifact, FolderArtifact) else ImageSource(artifact)
        )
        self._spa = spa
        self._bodies = SmallBodies(SMALL, MEMORY)

    async def respond(
        self,
        method: str,
        path: str,
        query: bytes,
        headers: Headers,
        send: Send,
        receive: Receive | None = None,
    ) -> tuple[int, int] | None:
        """Answer one request; return the status and how many body bytes left.

        `path` is the URL's as the client sent it, escapes untouched; `query` is what followed its `?`.
        `None` when no file matches: then nothing has been sent. `receive`, if given, is listened to for
        the client's going away while a large file is being sent. Raises `FileChanged` (the announced
        bytes can no longer be sent: cut the connection) and OSError (an image lost its blobs).
        """
        name = relative_name(path)
        if name is None:
            return None
        asked: dict[bytes, bytes] = {}
        for key, value in headers:
            if key in _READ_HEADERS:
                asked[key] = asked[key] + b", " + value if key in asked else value
        for attempt in range(1, _ATTEMPTS + 1):
            file, varies = self._find(name, method, asked)
            if file is None:
                return None
            if method != "GET" and method != "HEAD":
                return await _plain(
                    send, method, 405, "Only GET and HEAD are served here.", (b"allow", b"GET, HEAD")
                )
            if isinstance(file, FolderRedirect):
                location = url_path(file.name).encode() + b"/" + (b"?" + query if query else b"")
                return await _plain(send, method, 308, "", (b"location", location))
            try:
                return await self._answer(file, varies, method, asked, send, receive)
            except _NotYet as error:
                if attempt == _ATTEMPTS:
                    raise error.cause from None
        raise AssertionError("the last attempt returns or raises")

    def _find(
        self, name: str, method: str, asked: dict[bytes, bytes]
    ) -> tuple[StaticFile | FolderRedirect | None, bool]:
        """Return what answers a name, and whether that hung on the `accept` header."""
        file = self._source.find(name)
        if file is not None or not self._spa or method not in ("GET", "HEAD"):
            return file, False
        if "." in name.rpartition("/")[2] or b"text/html" not in asked.get(b"accept", b"").lower():
            return None, False
        return self._source.find(INDEX_PAGE), True

    async def _answer(
        self,
        file: StaticFile,
        varies: bool,
        method: str,
        asked: dict[bytes, bytes],
        send: Send,
        receive: Receive | None,
    ) -> tuple[int, int]:
        accepted = asked.get(b"accept-encoding")
        coding = choose(accepted, file.sizes)
        extra: tuple[Header, ...] = ((b"vary", b"accept"),) if varies else ()
        if coding is None:
            return await _plain(
                send,
                method,
                406,
                "Not available in any content coding that was asked for.",
                (b"vary", b"accept-encoding"),
                *extra,
            )
        chosen = file.representations[coding]
        condition = asked.get(b"if-none-match")
        if condition is not None and none_match(condition, chosen.etag):
            await _head(send, 304, [*chosen.lean_headers, *extra])
            return 304, await _body(send, b"")
        wanted = asked.get(b"range")
        if wanted is not None and method == "GET" and choose(accepted, {"identity": 0}):
            identity = file.representations["identity"]
            if asked.get(b"if-range", identity.etag).strip() == identity.etag:
                span = byte_range(wanted, identity.size)
                if span == "unsatisfiable":
                    length = (b"content-range", b"bytes */%d" % identity.size)
                    return await _plain(send, method, 416, "", length, *extra)
                if span is not None:
                    return await self._send(identity, 206, span, extra, method, send, receive)
        return await self._send(chosen, 200, (0, chosen.size), extra, method, send, receive)

    async def _send(
        self,
        chosen: Representation,
        status: int,
        span: tuple[int, int],
        extra: tuple[Header, ...],
        method: str,
        send: Send,
        receive: Receive | None,
    ) -> tuple[int, int]:
        start, stop = span
        headers = [*chosen.headers, (b"content-length", b"%d" % (stop - start)), *extra]
        if status == 206:
            headers.append((b"content-range", b"bytes %d-%d/%d" % (start, stop - 1, chosen.size)))
        if method == "HEAD":
            await _head(send, status, headers)
            return status, await _body(send, b"")
        body = self._bodies.of(chosen)
        if body is not None:
            await _head(send, status, headers)
            return status, await _body(send, body if status == 200 else body[start:stop])
        try:
            streamed = Streamed(chosen)
        except (OSError, FileChanged) as error:
            raise _NotYet(error) from error
        try:
            await _head(send, status, headers)
            return status, await streamed.send(start, stop, send, receive)
        finally:
            streamed.close()


class _NotYet(Exception):
    """Nothing was sent: the file became another between finding and opening it."""

    def __init__(self, cause: OSError | FileChanged) -> None:
        self.cause = cause


async def _head(send: Send, status: int, headers: list[Header]) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})


async def _body(send: Send, body: bytes) -> int:
    await send({"type": "http.response.body", "body": body, "more_body": False})
    return len(body)


async def _plain(send: Send, method: str, status: int, text: str, *headers: Header) -> tuple[int, int]:
    """Send a short answer of the server's own, which no cache keeps."""
    body = f"{text}\n".encode() if text else b""
    own = [(b"content-length", b"%d" % len(body)), (b"cache-control", b"no-cache")]
    if body:
        own.append((b"content-type", b"text/plain; charset=utf-8"))
    await _head(send, status, [*headers, *own])
    return status, await _body(send, b"" if method == "HEAD" else body)
