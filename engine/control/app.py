"""The control API's Quart application: authentication, error handlers and the OpenAPI document.

Each subject is a blueprint that gets its dependencies as arguments. Every route requires a session, except
routes marked `public_route`.
"""

import logging
from collections.abc import Callable, Iterable
from importlib.metadata import version
from typing import Any, Literal, TypeVar, cast

from pydantic import BaseModel
from quart import Blueprint, Quart, Response, current_app, g, request
from quart_schema import Info, QuartSchema, RequestSchemaValidationError, validate_response
from werkzeug.exceptions import HTTPException

from engine.bucket.protocols import is_disk_full
from engine.control import errors, openapi
from engine.control.access import AccessWatch, Authenticator, Principal, RequestAccess, Role, authenticated
from engine.control.streaming_body import StreamedConnection, StreamedRequest
from engine.errors import SvcError
from engine.manifest.schema import NAME_RULE, is_name
from engine.stepwise_json import exact_decoder

API_VERSION = "1"
MAX_BODY_BYTES = 4 << 20
"""Maximum size of a request body that a route does not read as a stream."""
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
    """Return the authenticated caller of a route that requires a session."""
    return cast(Principal, g.principal)


def access() -> RequestAccess:
    """Return the rights of the current request."""
    return cast(RequestAccess, g.access)


def require(project: str, role: Role) -> Principal:
    """Return the caller. Raises `Forbidden` if they lack this role in the project."""
    caller = principal()
    caller.require(project, role)
    access().required.append((project, role))
    return caller


def create_app(
    authenticator: Authenticator,
    blueprints: Iterable[Blueprint],
    *,
    in_fleet: bool = False,
) -> Quart:
    """Return the application with these blueprints. `in_fleet` says whether the service uses a fleet.

    Its requests raise `Unauthenticated` without a session, and `NotFound` for an invalid project name.
    """
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
    app.json.loads = exact_decoder.decode  # type: ignore[assignment,method-assign]
    for blueprint in (_health(in_fleet), *blueprints):
        app.register_blueprint(blueprint)
    watch = AccessWatch(authenticator, internal_error)

    @app.before_request
    async def _authenticate() -> None:
        view = current_app.view_functions.get(request.endpoint or "")
        if view is None or _is_open(view) or request.endpoint == "openapi":
            return
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        token = token.strip() if scheme.lower() == "bearer" else ""
        g.principal = caller = authenticated(await authenticator.principal(token))
        streamed = cast(StreamedRequest, request)
        streamed.access = g.access = watch.add(token, caller.user, streamed.on_access_lost)
        project = (request.view_args or {}).get("project", "")
        if project and not is_name(project):
            raise errors.NotFound(f'invalid project name "{project[:80]}"', NAME_RULE)

    app.register_error_handler(SvcError, _on_svc_error)
    app.register_error_handler(RequestSchemaValidationError, _on_validation_error)
    app.register_error_handler(HTTPException, _on_http_error)
    app.register_error_handler(Exception, _on_exception)
    return app


async def _on_svc_error(error: Exception) -> Response:
    return errors.problem_response(cast(SvcError, error))


async def _on_validation_error(error: Exception) -> Response:
    project = (request.view_args or {}).get("project")
    if project and "principal" in g:
        try:
            principal().require(project, "viewer")
        except SvcError as forbidden:
            return errors.problem_response(forbidden)
    return errors.from_validation(cast(RequestSchemaValidationError, error))


async def _on_http_error(error: Exception) -> Response:
    return errors.from_http(cast(HTTPException, error))


def internal_error(error: Exception) -> SvcError:
    """Log an unexpected exception and return the error to send instead."""
    _log.error("a request failed", exc_info=error)
    if isinstance(error, OSError) and is_disk_full(error):
        return SvcError(
            "the service's disk is full", "Free space on the service's disk, then retry.", code="storage-full"
        )
    return SvcError("the service failed; its log has the details", code="internal")


async def _on_exception(error: Exception) -> Response:
    if isinstance(error, RecursionError | UnicodeDecodeError):
        return errors.problem_response(SvcError("the request body is not valid JSON", code="invalid"))
    return errors.problem_response(internal_error(error))


class HealthResponse(BaseModel):
    """The service's state, its API version and its svc version, and whether it is a node of a fleet."""

    status: Literal["ok"]
    api: str
    version: str
    fleet: bool


def _health(in_fleet: bool) -> Blueprint:
    blueprint = Blueprint("health", __name__)

    @blueprint.get("/v1/health")
    @public_route
    @validate_response(HealthResponse)
    async def health() -> HealthResponse:
        """Report that the service runs, and its version."""
        return HealthResponse(status="ok", api=API_VERSION, version=version("svc-tui"), fleet=in_fleet)

    return blueprint
