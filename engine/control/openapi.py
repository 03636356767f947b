"""The document of the control API, /openapi.json, made exact. Owns what all routes have in common there.

Every route may answer with a problem document; a body that is described has to be sent, and so has what has
no default; a route that is open to all asks for no session; names in paths have their form; what is no JSON
has the media type that its route says.
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
    "secret": {"type": "string", "pattern": "^(?!SVC_)[A-Za-z_][A-Za-z0-9_]{0,127}$"},
}
"""The form of what stands for a part of a path, by its name."""
PROBLEM = {
    "type": "object",
    "title": "Problem",
    "description": "What went wrong (RFC 9457).",
    "required": ["title", "status", "code"],
    "properties": {
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string"},
        "hint": {"type": "string"},
    },
}


def takes(kind: str) -> Callable[[_F], _F]:
    """Mark a route whose requests have a body of this media type, which is not described further."""
    return _marked(_TAKES, (kind,))


def sends(*kinds: str) -> Callable[[_F], _F]:
    """Mark a route whose answers are of one of these media types, not JSON."""
    return _marked(_SENDS, kinds)


def _marked(mark: str, kinds: tuple[str, ...]) -> Callable[[_F], _F]:
    def marked(view: _F) -> _F:
        setattr(view, mark, kinds)
        return view

    return marked


def provider(is_open: Callable[[Any], bool]) -> type[OpenAPIProvider]:
    """Return what makes the document; `is_open` tells whether a route needs no session."""

    class Exact(OpenAPIProvider):
        """Adds what quart-schema does not know."""

        def schema(self) -> dict[str, Any]:
            found = super().schema()
            found["components"]["schemas"]["Problem"] = PROBLEM
            return found

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
        answer = operation["responses"].pop(200, {"description": "It was done."})
        lines: dict[str, Any] = next(iter(answer.get("content", {}).values()), {})
        # A schema is that of each line: no document is the whole of a stream.
        operation["responses"] = {200: answer | {"content": dict.fromkeys(kinds, lines)}}


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
    answers = operation["responses"] = {str(key): answer for key, answer in operation["responses"].items()}
    if not answers:
        answers["2XX"] = {"description": "It was done."}
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    answers["default"] = {"description": "It was not done.", "content": content}
