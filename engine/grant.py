"""The least change that allows a denied action: a line of `svc.toml`, or a command."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

GrantKind = Literal["egress", "mount", "secret", "import", "quota"]


@dataclass(frozen=True, slots=True)
class Grant:
    """The least change that allows one denied action.

    `line` is a line of `svc.toml`, or of a terminal. `edit` is the change of `svc.toml`, as the control API
    takes it, and empty for a command.
    """

    kind: GrantKind
    line: str
    edit: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def egress(cls, resource: str, origin: str, line: str) -> "Grant":
        """Return the grant for calls of a resource to an origin."""
        return cls("egress", line, {"op": "add-origin", "resource": resource, "origin": origin})

    @classmethod
    def mount(cls, resource: str, pattern: str, target: str) -> "Grant":
        """Return the grant for requests that a resource does not route."""
        edit = {"op": "add", "resource": resource, "pattern": pattern, "target": target}
        return cls("mount", f'"{pattern}" = "{target}"', edit)

    def to_json(self) -> dict[str, object]:
        """Return the members."""
        return {"kind": self.kind, "line": self.line, "edit": dict(self.edit)}
