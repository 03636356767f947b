"""The web Console of a service: login with its accounts, the list of projects, and a page of each."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from quart import Quart, Response, abort, redirect, render_template, request

from engine.control.access import Principal, Unauthenticated
from engine.control.access_watch import AccessWatch
from engine.control.app import internal_error
from engine.control.auth.routes import AuthServices
from engine.control.auth.sessions import SECOND_NS
from engine.control.errors import STATUS, TooManyAttempts
from engine.errors import SvcError
from engine.gateway.console import ROOT
from engine.http.connection_limits import client_key
from engine.manifest.schema import is_name
from svc_tui.console.web.pages import Pages, Visitor, create_app, page_routes, require_same_origin
from svc_tui.console.web.session import Launch

SECURE_COOKIE, COOKIE = "__Host-svc-console", "svc-console"
"""Cookies with the token of the session. Browsers accept the first over TLS only, and not from subdomains."""


class HostedConsole:
    """The Consoles that a service runs for its users."""

    def __init__(
        self,
        pages: Pages,
        auth: AuthServices,
        names: Callable[[], Awaitable[Iterable[str]]],
        *,
        api: str,
        address: str,
    ) -> None:
        """`names` returns all projects. `api` is the control API's URL here, `address` the public one."""
        self._pages, self._auth, self._names = pages, auth, names
        self._api, self._address = api, address
        self._watch = AccessWatch(auth.sessions, internal_error)

    def application(self) -> Quart:
        """Return the application. Every page but the login requires a session."""
        app = create_app(ROOT)
        app.jinja_env.globals["address"] = self._address
        routes = page_routes(self._pages, self._visitor, f"{ROOT}?list")
        app.register_blueprint(routes, url_prefix=f"{ROOT}<project>")

        @app.get(ROOT)
        async def index() -> Any:
            caller = await self._caller()
            if caller is None:
                return await self._login_page()
            projects = await self._projects(caller)
            if len(projects) == 1 and "list" not in request.args:
                return redirect(f"{ROOT}{projects[0]}/", 303)
            roles = [(name, caller.role(name)) for name in projects]
            return await render_template("projects.html", user=caller.user, projects=roles)

        @app.post(f"{ROOT}-/login")
        async def login() -> Any:
            require_same_origin()
            form = await request.form
            user, project = form.get("user", "").strip(), form.get("project", "")
            try:
                address = client_key(request.remote_addr or "")
                account = await self._auth.log_in(address, user, form.get("password", ""))
            except SvcError as error:
                return await self._login_page(error, user=user, project=project)
            token, session = await self._auth.sessions.create_session(account)
            response: Any = redirect(f"{ROOT}{project}/" if is_name(project) else ROOT, 303)
            secure = request.headers["Origin"].startswith("https:")
            response.set_cookie(
                SECURE_COOKIE if secure else COOKIE,
                token,
                httponly=True,
                samesite="Strict",
                secure=secure,
                path="/" if secure else ROOT,
                expires=session.expires_ns // SECOND_NS,
            )
            return response

        @app.post(f"{ROOT}-/logout")
        async def logout() -> Any:
            require_same_origin()
            await self._auth.sessions.revoke(_token())
            return redirect(ROOT, 303)

        return app

    async def _caller(self) -> Principal | None:
        return await self._auth.sessions.principal(token) if (token := _token()) else None

    async def _projects(self, caller: Principal) -> list[str]:
        return sorted(name for name in await self._names() if caller.role(name))

    async def _login_page(self, error: SvcError | None = None, **values: str) -> Response:
        if error is None and not await self._auth.accounts.claimed():
            hint = f"Create one: `svc login {self._address}` asks for its code."
            error = SvcError("this service has no owner yet", hint)
        text = await render_template("login.html", error=error, **values)
        response = Response(text, STATUS.get(error.code, 422) if error else 200, mimetype="text/html")
        if isinstance(error, TooManyAttempts):
            response.headers["Retry-After"] = str(error.retry_after)
        return response

    async def _visitor(self, project: str) -> Visitor:
        """Return the visitor of a project's page; abort the request of one without access."""
        caller, token = await self._caller(), _token()
        if caller is None:
            if request.method == "GET":
                abort(await self._login_page(project=project))
            raise SvcError("you are logged out", "Open this page again to log in.", code="forbidden")
        # A request with input belongs to a page, whose access is watched.
        if request.endpoint != "page.receive" and project not in await self._projects(caller):
            abort(Response(await render_template("missing.html", project=project, user=caller.user), 404))

        def watch(end: Callable[[str], None]) -> Callable[[], None]:
            def on_lost(error: SvcError) -> None:
                ended = isinstance(error, Unauthenticated)
                end("You were logged out. Open this page again to log in." if ended else error.message)

            access = self._watch.add(token, caller.user, on_lost)
            access.required.append((project, "viewer"))
            return access.unwatch

        environ = {"SVC_CONSOLE_API": self._api, "SVC_CONSOLE_TOKEN": token}
        launch = Launch({"project": project, "address": self._address}, environ, hosted=True)
        return Visitor((token, project), project, launch, watch, caller.user)


def _token() -> str:
    cookies = request.cookies
    return cookies.get(SECURE_COOKIE) or ("" if request.scheme == "https" else cookies.get(COOKIE, ""))
