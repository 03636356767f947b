"""Principals, their roles per project, and authentication by token.

`Authenticator` hides where sessions are stored.
"""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from engine.errors import SvcError

Role = Literal["viewer", "deployer", "owner"]
_RANK: Mapping[Role, int] = {"viewer": 1, "deployer": 2, "owner": 3}
ALL_PROJECTS = "*"


def weaker(first: Role, second: Role) -> Role:
    return min(first, second, key=_RANK.__getitem__)


class Unauthenticated(SvcError):
    """The caller is not logged in, or the session has expired."""

    code = "unauthenticated"


class Forbidden(SvcError):
    """The caller lacks the required role."""

    code = "forbidden"


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated caller. `roles` maps projects to roles; `*` stands for every project."""

    name: str
    roles: Mapping[str, Role]

    @property
    def user(self) -> str:
        """The name of the user, also for a principal that is one of their tokens: `ann/ci`."""
        return self.name.partition("/")[0]

    def role(self, project: str) -> Role | None:
        """Return the stronger of the caller's role in a project and in every project."""
        roles = [self.roles[key] for key in (project, ALL_PROJECTS) if key in self.roles]
        return max(roles, key=_RANK.__getitem__, default=None)

    def has(self, project: str, role: Role) -> bool:
        """Return whether the caller has at least this role in the project."""
        current = self.role(project)
        return current is not None and _RANK[current] >= _RANK[role]

    def require(self, project: str, role: Role) -> None:
        """Raise `Forbidden` unless the caller has at least this role in the project."""
        if not self.has(project, role):
            current = self.role(project)
            state = f"is only {current} of" if current else "has no role in"
            hint = f"Ask an owner of {project} to run: svc user role {self.name} {role} --project {project}"
            if self.user != self.name:
                hint = f"Use another token: svc token create NAME --role {role} --project {project}"
            raise Forbidden(f"{self.name} {state} the project {project}; this requires the role {role}", hint)


class Authenticator(Protocol):
    """Maps tokens to principals."""

    async def principal(self, token: str) -> Principal | None:
        """Return the principal of a token, or `None` if the token is not valid."""


class StaticToken:
    """Authenticates the holder of one fixed token as owner of every project.

    `svc dev` and `svc serve` write that token to a file that only their user can read.
    """

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    async def principal(self, token: str) -> Principal | None:
        matches = hmac.compare_digest(token.encode("utf-8", "surrogateescape"), self._token)
        return Principal("developer", {ALL_PROJECTS: "owner"}) if matches else None


class AnyOf:
    """Tries several authenticators in order."""

    def __init__(self, *authenticators: Authenticator) -> None:
        self._authenticators = authenticators

    async def principal(self, token: str) -> Principal | None:
        for authenticator in self._authenticators:
            if (principal := await authenticator.principal(token)) is not None:
                return principal
        return None
