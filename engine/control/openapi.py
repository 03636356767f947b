"""The control API's OpenAPI document, completed beyond what quart-schema generates.

It adds to every route: the problem document as default response; required bodies and query parameters;
patterns of path parameters; media types of bodies that are not JSON; and public routes without a session.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from quart_schema.openapi import OpenAPIProvider

from engine.control.schemas.accounts import TOKEN_NAME_PATTERN
from engine.manifest.schema import NAME_LENGTH, NAME_PATTERN

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


def takes(kind: str) -> Callable[[_F], _F]:
    """Mark a route whose request body has this media type."""
    return _marked(_TAKES, (kind,))


def sends(*kinds: str) -> Callable[[_F], _F]:
    """Mark a route whose responses are of one of these media types instead of JSON."""
    return _marked(_SENDS, kinds)


def _marked(mark: str, kinds: tuple[str, ...]) -> Callable[[_F], _F]:
    def marked(view: _F) -> _F:
        setattr(view, mark, kinds)
        return view

    return marked


def provider(is_open: Callable[[Any], bool]) -> type[OpenAPIProvider]:
    """Return the OpenAPI provider class. `is_open` returns whether a view needs no session."""

    class Exact(OpenAPIProvider):
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
                    _media(operation, view)
                    _complete(operation, is_open(view))
            return paths, components

    return Exact


def _media(operation: dict[str, Any], view: Any) -> None:
    for kind in getattr(view, _TAKES, ()):
        operation["requestBody"] = {"content": {kind: {}}}
    if kinds := getattr(view, _SENDS, ()):
        response = operation["responses"].pop(200, {"description": "Success."})
        schema: dict[str, Any] = next(iter(response.get("content", {}).values()), {})
        # The schema describes one line of a stream, not the whole stream.
        operation["responses"] = {200: response | {"content": dict.fromkeys(kinds, schema)}}


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
