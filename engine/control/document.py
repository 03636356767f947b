"""The document of the control API, /openapi.json, made exact. Owns what all routes have in common there.

Every route may answer with a problem document; a body that is described has to be sent; a route that is open
to all asks for no session; names in paths have their form.
"""

from collections.abc import Callable, Mapping
from typing import Any

from quart_schema.openapi import OpenAPIProvider

_NAME = {"type": "string", "pattern": "^[a-z][a-z0-9]*(-[a-z0-9]+)*$", "maxLength": 39}
IN_PATHS: Mapping[str, Mapping[str, Any]] = {
    "user": _NAME,
    "token": {"type": "string", "pattern": "^[a-z0-9][a-z0-9._-]{0,38}$"},
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
                    _complete(operation, is_open(view))
            return paths, components

    return Exact


def _complete(operation: dict[str, Any], is_open: bool) -> None:
    if "requestBody" in operation:
        operation["requestBody"]["required"] = True
    if is_open:
        operation["security"] = []
    for parameter in operation["parameters"]:
        if parameter["in"] == "path" and parameter["name"] in IN_PATHS:
            parameter["schema"] = dict(IN_PATHS[parameter["name"]])
    answers = operation["responses"] = {str(key): answer for key, answer in operation["responses"].items()}
    if not answers:
        answers["2XX"] = {"description": "It was done."}
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    answers["default"] = {"description": "It was not done.", "content": content}
