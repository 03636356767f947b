"""The control API's Quart application: authentication, error handlers and the OpenAPI document.

Each subject is a blueprint that gets its dependencies as arguments. Every route requires a session, except
`public` ones. The document is that of quart-schema, completed. Every route gets: the problem
document as default response; required bodies and query parameters; patterns of path parameters; media types
of bodies that are not JSON; and if public, no session.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import is_dataclass
from functools import wraps
from importlib.metadata import version
from typing import Any, Literal, TypeVar, cast, get_args

from pydantic import BaseModel
from quart import Blueprint, Quart, Response, current_app, g, request
from quart_schema import (
    Info,
    QuartSchema,
    RequestSchemaValidationError,
    validate_querystring,
    validate_request,
    validate_response,
)
from quart_schema.openapi import OpenAPIProvider
from werkzeug.exceptions import HTTPException

from engine.bucket.protocols import is_disk_full
from engine.control import errors
from engine.control.access import ALL_PROJECTS, Authenticator, Principal, Role
from engine.control.access_watch import AccessWatch, RequestAccess, authenticated
from engine.control.auth.sessions import TOKEN_NAME_PATTERN
from engine.control.streaming_body import StreamedConnection, StreamedRequest
from engine.errors import SvcError
from engine.manifest.schema import NAME_LENGTH, NAME_PATTERN, NAME_RULE, is_name
from engine.stepwise_json import exact_decoder

API_VERSION = "1"
MAX_BODY_BYTES = 4 << 20
"""Maximum size of a request body that a route does not read as a stream."""
_OPEN = "open_to_all"
_log = logging.getLogger("svc.control")
_log.addHandler(logging.NullHandler())
_F = TypeVar("_F", bound=Callable[..., Any])
_TAKES, _SENDS = "document_takes", "document_sends"
_NAME = {"type": "string", "pattern": NAME_PATTERN, "maxLength": NAME_LENGTH}
IN_PATHS: Mapping[str, Mapping[str, Any]] = {
    "user": _NAME,
    "token": {"type": "string", "pattern": TOKEN_NAME_PATTERN},
    "project": _NAME,
    "scope": {"anyOf": [_NAME, {"const": "*"}]},
    "id": {"type": "string", "pattern": "^[0-9a-z]{1,64}$"},
    "digest": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
    "deployment": {"type": "string", "minLength": 1, "maxLength": 100},
    "node": {"type": "string", "minLength": 1, "maxLength": 100},
    "domain": {"type": "string", "minLength": 1, "maxLength": 300},
    "secret": {"type": "string", "pattern": "^(?!SVC_)[A-Za-z_][A-Za-z0-9_]{0,127}$"},
}
"""JSON schema of each path parameter."""
PROBLEM = {
    "type": "object",
    "title": "Problem",
    "description": "An error (RFC 9457).",
    "required": ["title", "status", "code"],
    "properties": {
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string"},
        "hint": {"type": "string"},
    },
}


class _Document(OpenAPIProvider):
    """An OpenAPI provider that completes each operation."""

    def schema(self) -> dict[str, Any]:
        document = super().schema()
        document["components"]["schemas"]["Problem"] = PROBLEM
        return document

    def build_paths(self, rule: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        paths, components = super().build_paths(rule)
        view = self._app.view_functions[rule.endpoint]
        for operations in paths.values():
            for operation in operations.values():
                if kind := getattr(view, _TAKES, ""):
                    operation["requestBody"] = {"content": {kind: {}}}
                if kinds := getattr(view, _SENDS, ()):
                    response = operation["responses"].pop(200, {"description": "Success."})
                    schema: dict[str, Any] = next(iter(response.get("content", {}).values()), {})
                    # The schema describes one line of a stream, not the whole stream.
                    operation["responses"] = {200: response | {"content": dict.fromkeys(kinds, schema)}}
                _complete(operation, _is_open(view))
        return paths, components


def _complete(operation: dict[str, Any], is_open: bool) -> None:
    if "requestBody" in operation:
        operation["requestBody"]["required"] = True
    if is_open:
        operation["security"] = []
    for parameter in operation["parameters"]:
        if parameter["in"] == "query" and "default" not in parameter["schema"]:
            parameter["required"] = True
        if parameter["in"] == "path" and parameter["name"] in IN_PATHS:
            parameter["schema"] = dict(IN_PATHS[parameter["name"]])
    responses = operation["responses"] = {str(key): value for key, value in operation["responses"].items()}
    if not responses:
        responses["2XX"] = {"description": "Success."}
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    responses["default"] = {"description": "Error.", "content": content}


class Routes(Blueprint):
    """Routes, validated by the annotations of their functions: of `data`, `query_args`, and the response.

    A response is validated if it is a model, also beside a status. A route with a role requires it of its
    caller in `scope`: by default in the project of its path, without one in all projects. A `public` route
    needs no session. `takes` is the media type of a body, `sends` has those of responses, other than JSON.
    """

    def _validated_route(
        self,
        method: str,
        rule: str,
        role: Role | None = None,
        *,
        scope: str = "",
        public: bool = False,
        takes: str = "",
        sends: Iterable[str] = (),
    ) -> Callable[[_F], _F]:
        def added(view: _F) -> _F:
            @wraps(view)
            async def permitted(**arguments: Any) -> Any:
                if role is not None:
                    require(scope or arguments.get("project", ALL_PROJECTS), role)
                return await view(**arguments)

            for mark, value in ((_OPEN, public), (_TAKES, takes), (_SENDS, tuple(sends))):
                setattr(permitted, mark, value)
            validated: Callable[..., Any] = permitted
            returned, *_ = get_args(view.__annotations__["return"]) or (view.__annotations__["return"],)
            if isinstance(returned, type) and (issubclass(returned, BaseModel) or is_dataclass(returned)):
                validated = validate_response(returned)(validated)
            if model := view.__annotations__.get("data"):
                validated = validate_request(model)(validated)
            if model := view.__annotations__.get("query_args"):
                validated = validate_querystring(model)(validated)
            self.route(rule, methods=[method])(validated)
            return view

        return added

    def get(self, rule: str, *role: Role, **options: Any) -> Callable[[_F], _F]:
        return self._validated_route("GET", rule, *role, **options)

    def post(self, rule: str, *role: Role, **options: Any) -> Callable[[_F], _F]:
        return self._validated_route("POST", rule, *role, **options)

    def put(self, rule: str, *role: Role, **options: Any) -> Callable[[_F], _F]:
        return self._validated_route("PUT", rule, *role, **options)

    def delete(self, rule: str, *role: Role, **options: Any) -> Callable[[_F], _F]:
        return self._validated_route("DELETE", rule, *role, **options)


def _is_open(view: Any) -> bool:
    return bool(getattr(view, _OPEN, False))


def principal() -> Principal:
    """Return the authenticated caller of a route that requires a session."""
    return cast(Principal, g.principal)


def access() -> RequestAccess:
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
    on_removal: Callable[[Callable[[str], None]], object] = lambda end: None,
) -> Quart:
    """Return the application with these blueprints. `in_fleet` says whether the service uses a fleet.

    `on_removal` gets a function that ends the streams of a project.
    Its requests raise `Unauthenticated` without a session, and `NotFound` for an invalid project name.
    """
    app = Quart("engine.control")
    app.request_class, app.asgi_http_class = StreamedRequest, StreamedConnection
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY_BYTES
    app.config["RESPONSE_TIMEOUT"] = None
    app.config["BODY_TIMEOUT"] = None
    QuartSchema(
        app,
        openapi_provider_class=_Document,
        info=Info(title="svc control API", version=API_VERSION),
        openapi_path="/openapi.json",
        redoc_ui_path=None,
        scalar_ui_path=None,
        swagger_ui_path=None,
        security=[{"session": []}],
        security_schemes={"session": {"type": "http", "scheme": "bearer"}},
    )
    app.json.loads = exact_decoder.decode  # type: ignore[assignment,method-assign]
    own = Routes("health", __name__)

    @own.get("/v1/health", public=True)
    async def health() -> HealthResponse:
        """Report that the service runs, and its version."""
        return HealthResponse(status="ok", api=API_VERSION, version=version("svc-tui"), fleet=in_fleet)

    for blueprint in (own, *blueprints):
        app.register_blueprint(blueprint)
    watch = AccessWatch(authenticator, internal_error)
    on_removal(watch.end)

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

    app.register_error_handler(Exception, _on_error)
    return app


async def _on_error(error: Exception) -> Response:
    match error:
        case SvcError():
            return errors.problem_response(error)
        case RequestSchemaValidationError():
            project = (request.view_args or {}).get("project")
            try:
                if project and "principal" in g:
                    principal().require(project, "viewer")
            except SvcError as forbidden:
                return errors.problem_response(forbidden)
            return errors.from_validation(error)
        case HTTPException():
            return errors.from_http(error)
        case RecursionError() | UnicodeDecodeError():
            return errors.problem_response(SvcError("the request body is not valid JSON", code="invalid"))
    return errors.problem_response(internal_error(error))


def internal_error(error: Exception) -> SvcError:
    """Log an unexpected exception and return the error to send instead."""
    _log.error("a request failed", exc_info=error)
    if isinstance(error, OSError) and is_disk_full(error):
        hint = "Free space on the service's disk, then retry."
        return SvcError("the service's disk is full", hint, code="storage-full")
    return SvcError("the service failed; its log has the details", code="internal")


class HealthResponse(BaseModel):
    """The service's state, its API version and its svc version, and whether it is a node of a fleet."""

    status: Literal["ok"]
    api: str
    version: str
    fleet: bool
