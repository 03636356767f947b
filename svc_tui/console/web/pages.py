"""Web pages with a Console: their routes, and one Console process per page.

A page sends input in POST requests and reads its terminal from the response of one POST request, so any HTTP
proxy can be in between. It uses the script of textual-serve and loads nothing from other origins.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

from quart import Blueprint, Quart, Response, abort, g, render_template, request, send_file

from engine.cancellation import spawn
from engine.control.errors import STATUS
from engine.errors import SvcError
from engine.files.temporary import remove_abandoned
from engine.static_files.content_type import content_type
from svc_tui.console.web.session import FOLDER, BrowserSession, Launch, PageStream, now, terminal_size

MAX_PAGES = 16
MAX_USER_PAGES = 8
"""Maximum pages of one user of a service."""
MAX_INPUTS = 4
"""Maximum requests of one page whose input waits for its Console."""
MAX_INPUT_BYTES = 1 << 20
"""Maximum size of one request of a page, which splits a long paste."""
IDLE_SECONDS = 3600.0
"""A page of a service ends after this long without a key, a click or a movement of the mouse."""
CHECK_SECONDS = 5.0
"""Time between two checks for pages that end."""
_OWN = ("page.js", "page.css")
_OF_TEXTUAL = (
    "js/textual.js",
    "css/xterm.css",
    "fonts/RobotoMono-VariableFont_wght.ttf",
    "fonts/RobotoMono-Italic-VariableFont_wght.ttf",
)
_HEADERS = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'{}; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)


@dataclass(frozen=True, slots=True)
class Visitor:
    """An authenticated browser: the owner of its pages, their title, and how to start their Console."""

    owner: object
    title: str
    launch: Launch
    watch: Callable[[Callable[[str], None]], Callable[[], None]] = lambda end: lambda: None
    """Calls its argument with a message when the owner loses access. Its result ends that."""
    user: str = ""
    """Account at a service."""


class Pages:
    """The pages that are open, and the Consoles behind them."""

    def __init__(self, *, idle_seconds: float | None = None) -> None:
        """Without `idle_seconds`, a page may stay open without input, and pending edits wait for the next."""
        remove_abandoned(FOLDER)
        self._idle_seconds = idle_seconds
        self._sessions: dict[str, BrowserSession] = {}
        self._checking: asyncio.Task[None] | None = None
        self._ending: set[asyncio.Task[None]] = set()

    @property
    def count(self) -> int:
        return len(self._sessions)

    @property
    def pending(self) -> int:
        """The number of edits that would be lost by closing all pages."""
        return sum(session.pending for session in self._sessions.values())

    async def close(self) -> None:
        """End all pages."""
        if self._checking is not None:
            self._checking.cancel()
        sessions, self._sessions = self._sessions, {}
        await asyncio.gather(*self._ending, *(session.close() for session in sessions.values()))

    async def stream(self, visitor: Visitor, width: int, height: int) -> Response:
        """Return the terminal of a new page as a stream. Raises `SvcError` if too many are open."""
        page = PageStream()
        session = self._acquire(visitor, page)
        try:
            await session.show(width, height)
        except OSError as error:
            self._end(session, page)
            raise SvcError(f"cannot start a Console: {error.strerror}", code="unavailable") from error

        async def frames() -> AsyncIterator[bytes]:
            try:
                async for frame in page.frames():
                    yield frame
            finally:
                self._end(session, page)

        headers = {"X-Svc-Page": session.id, "X-Accel-Buffering": "no"}
        return Response(frames(), content_type="application/octet-stream", headers=headers)

    def session(self, id: str, owner: object) -> BrowserSession:
        """Return the session of a page of this owner. Raises `SvcError` if it has ended."""
        session = self._sessions.get(id)
        if session is None or session.owner != owner:
            raise SvcError("this page has ended", "Open it again.", code="gone")
        return session

    def _acquire(self, visitor: Visitor, page: PageStream) -> BrowserSession:
        """Attach a page to a detached session of the visitor with pending edits, or to a new one."""
        for session in self._sessions.values():
            if session.owner == visitor.owner and session.page is None and session.pending:
                session.page = page
                return session
        mine = sum(session.user == visitor.user for session in self._sessions.values())
        if self.count >= MAX_PAGES or (visitor.user and mine >= MAX_USER_PAGES):
            problem = f"the Console is open in {mine if self.count < MAX_PAGES else MAX_PAGES} pages"
            hint = "Close one of them, then open this page again."
            raise SvcError(problem, hint, code="unavailable")
        session = BrowserSession(visitor.launch, visitor.owner, page, visitor.user)
        self._sessions[session.id] = session
        session.unwatch = visitor.watch(lambda message: self._end(session, message=message))
        if self._checking is None:
            self._checking = asyncio.create_task(self._check_repeatedly())
        return session

    def _end(self, session: BrowserSession, page: PageStream | None = None, message: str = "") -> None:
        """Close a session: its page has gone, unless edits are pending, or it gets a message instead."""

        async def end() -> None:
            if message:
                session.unwatch()
            if message or session.page is page:
                await session.detach(message)
            elif session.page is not None:
                return
            if message or not session.pending:
                await session.close()
                self._sessions.pop(session.id, None)

        spawn(self._ending, end())

    async def _check_repeatedly(self) -> None:
        """End pages that are gone or not used, and Consoles whose page is closed and not used."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            for session in self._sessions.values():
                if session.page is not None and session.page.stalled:
                    self._end(session, session.page)
                elif self._idle_seconds is not None and now() - session.last_used > self._idle_seconds:
                    self._end(session, message="This page was not used for a long time.")


def create_app(root: str) -> Quart:
    """Return an application with the files of the pages below `root`; responses get security headers."""
    app = Quart("svc_tui.console.web", template_folder=".", static_folder=None)
    app.config |= {"MAX_CONTENT_LENGTH": MAX_INPUT_BYTES, "RESPONSE_TIMEOUT": None}
    app.config["PROVIDE_AUTOMATIC_OPTIONS"] = False
    app.jinja_env.globals["root"] = root
    textual = Path(str(cast(ModuleSpec, find_spec("textual_serve")).origin)).parent
    sources = {name: Path(__file__).parent / name for name in _OWN}
    sources |= {Path(name).name: textual / "static" / name for name in _OF_TEXTUAL}

    @app.get(f"{root}-/static/<name>")
    async def static(name: str) -> Response:
        if name not in sources:
            abort(404)
        response = await send_file(sources[name], mimetype=content_type(name), conditional=True)
        response.headers["Cache-Control"] = "no-cache"
        return response

    @app.after_request
    async def secured(response: Response) -> Response:
        response.headers.setdefault("Cache-Control", "no-store")
        response.headers.setdefault("Content-Security-Policy", _POLICY.format(""))
        response.headers.update(_HEADERS)
        return response

    @app.errorhandler(SvcError)
    async def refused(error: SvcError) -> Response:
        return Response(f"{error.text}\n", STATUS.get(error.code, 422), content_type="text/plain")

    return app


def require_same_origin(public: str = "") -> None:
    """Raise `SvcError` unless a page of this host, or of a public URL, sent the request."""
    origin = request.headers.get("Origin", "")
    if origin not in (f"http://{request.host}", f"https://{request.host}", public or None):
        raise SvcError("only the Console's own page may send this request", code="forbidden")


def page_routes(
    pages: Pages, authenticate: Callable[[str], Awaitable[Visitor]], home: str = "", public: str = ""
) -> Blueprint:
    """Return the routes of a page. Its requests raise `SvcError`.

    `authenticate` gets the project and aborts the request to refuse it. `home` is a page with other projects,
    `public` the URL of the page at a proxy that does not pass its host.
    """
    routes = Blueprint("page", __name__)

    @routes.url_value_preprocessor
    def take_project(endpoint: str | None, values: dict[str, Any] | None) -> None:
        g.project = (values or {}).pop("project", "")

    @routes.before_request
    async def authenticated() -> None:
        if request.method == "POST":
            require_same_origin(public)
        g.visitor = await authenticate(g.project)

    @routes.get("/")
    async def page() -> Response:
        text = await render_template("page.html", title=g.visitor.title, home=home)
        # The terminal sets styles of its elements.
        policy = _POLICY.format(" 'unsafe-inline'")
        return Response(text, mimetype="text/html", headers={"Content-Security-Policy": policy})

    @routes.post("/stream")
    async def stream() -> Response:
        try:
            size = json.loads(await request.get_data(as_text=False))
        except (ValueError, RecursionError):
            size = None
        return await pages.stream(g.visitor, *terminal_size(size))

    @routes.post("/input/<id>")
    async def receive(id: str) -> Response:
        session = pages.session(id, g.visitor.owner)
        if session.receiving >= MAX_INPUTS:
            raise SvcError("the page sends input faster than its Console takes it", code="unavailable")
        session.receiving += 1
        try:
            for line in (await request.get_data(as_text=False)).splitlines():
                await session.receive(json.loads(line))
        except (ValueError, RecursionError):
            raise SvcError("the input of the page is not valid", code="invalid") from None
        finally:
            session.receiving -= 1
        return Response(status=204)

    @routes.get("/download/<id>/<name>")
    async def download(id: str, name: str) -> Response:
        session = pages.session(id, g.visitor.owner)
        if session.folder is None or name not in session.downloads or not (session.folder / name).exists():
            abort(404)
        response = await send_file(session.folder / name, "application/octet-stream")
        plain, encoded = name.encode("ascii", "replace").decode(), f"UTF-8''{quote(name, '')}"
        names = {"filename": plain, "filename*": encoded}
        response.headers.set("Content-Disposition", "attachment", **names)
        response.headers["Cache-Control"] = "no-store"
        return response

    return routes
