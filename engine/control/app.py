"""The control API as an application: who may come in, what is said when something fails, its document.

Owns no subject: each is a blueprint, and each blueprint is given what it needs. A route is closed unless it
is marked `open_to_all`; an open one sees nobody logged in.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeVar, cast

from pydantic import BaseModel
from quart import Blueprint, Quart, Response, current_app, g, request
from quart_schema import Info, QuartSchema, RequestSchemaValidationError, validate_response
from werkzeug.exceptions import HTTPException

from engine.bucket.errors import is_disk_full
from engine.control import errors, openapi
from engine.control.access import Authenticator, Principal, Role, Unauthenticated
from engine.control.streaming_body import StreamedConnection, StreamedRequest
from engine.errors import SvcError
from engine.manifest.schema import NAME_RULE, is_name

API_VERSION = "1"
MAX_BODY_BYTES = 4 << 20
"""Bytes of a request, where a route does not take a stream."""
_OPEN = "open_to_all"
_log = logging.getLogger("svc.control")
_log.addHandler(logging.NullHandler())
_F = TypeVar("_F", bound=Callable[..., Any])


def public_route(view: _F) -> _F:
    """Mark a route that needs no session."""
    setattr(view, _OPEN, True)
    return view


def _is_open(view: Any) -> bool:
    return bool(getattr(view, _OPEN, False))


def principal() -> Principal:
    """Return who asks, on a closed route."""
    return cast(Principal, g.principal)


def require(project: str, role: Role) -> Principal:
    """Return who asks; raises `Forbidden` without this role in the Project."""
    asking = principal()
    asking.require(project, role)
    return asking


def create_app(authority: Authenticator, blueprints: Iterable[Blueprint]) -> Quart:
    """Return the application of these subjects."""
    app = Quart("engine.control")
    app.request_class, app.asgi_http_class = StreamedRequest, StreamedConnection
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY_BYTES
    app.config["RESPONSE_TIMEOUT"] = None
    app.config["BODY_TIMEOUT"] = None
    QuartSchema(
        app,
        openapi_provider_class=openapi.provider(_is_open),
        info=Info(title="svc control API", version=API_VERSION),
        openapi_path="/openapi.json",
        redoc_ui_path=None,
        scalar_ui_path=None,
        swagger_ui_path=None,
        security=[{"session": []}],
        security_schemes={"session": {"type": "http", "scheme": "bearer"}},
    )
    for blueprint in (_about(), *blueprints):
        app.register_blueprint(blueprint)

    @app.before_request
    async def _admit() -> None:
        view = current_app.view_functions.get(request.endpoint or "")
        if view is None or _is_open(view) or request.endpoint == "openapi":
            return
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        found = await authority.principal(token.strip()) if scheme.lower() == "bearer" else None
        if found is None:
            raise Unauthenticated("this needs a session", "Log in with `svc login`.")
        g.principal = found
        project = (request.view_args or {}).get("project", "")
        if project and not is_name(project):
            raise errors.NotFound(f'no Project can be named "{project[:80]}"', NAME_RULE)

    app.register_error_handler(SvcError, _refused)
    app.register_error_handler(RequestSchemaValidationError, _malformed)
    app.register_error_handler(HTTPException, _http)
    app.register_error_handler(Exception, _failed)
    return app


async def _refused(error: Exception) -> Response:
    return errors.problem_response(cast(SvcError, error))


async def _malformed(error: Exception) -> Response:
    return errors.from_validation(cast(RequestSchemaValidationError, error))


async def _http(error: Exception) -> Response:
    return errors.from_http(cast(HTTPException, error))


def internal_error(error: Exception) -> SvcError:
    """Note a fault of the service itself; return what is said of it."""
    _log.error("a request failed", exc_info=error)
    if isinstance(error, OSError) and is_disk_full(error):
        return SvcError(
            "there is no room on the service's disk", "Make room there and try again.", code="unavailable"
        )
    return SvcError("The service failed; its own log says why.", code="internal")


async def _failed(error: Exception) -> Response:
    if isinstance(error, RecursionError | UnicodeDecodeError):
        return errors.problem_response(SvcError("the request can not be read as JSON", code="invalid"))
    return errors.problem_response(internal_error(error))


class Health(BaseModel):
    """That the service answers, and the version of its API."""

    status: Literal["ok"]
    api: str


def _about() -> Blueprint:
    blueprint = Blueprint("about", __name__)

    @blueprint.get("/v1/health")
    @public_route
    @validate_response(Health)
    async def health() -> Health:
        """Say that the service answers."""
        return Health(status="ok", api=API_VERSION)

    return blueprint
