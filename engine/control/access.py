"""Who asks, and what they may do: principals, their roles, and how a token becomes one.

Owns no storage and no HTTP. Where sessions are kept is behind `Authority`.
"""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from engine.errors import SvcError

Role = Literal["viewer", "deployer", "owner"]
_RANK: Mapping[Role, int] = {"viewer": 1, "deployer": 2, "owner": 3}
ALL_PROJECTS = "*"


def weaker(one: Role, other: Role) -> Role:
    """Return the role that allows less."""
    return min(one, other, key=_RANK.__getitem__)


class Unauthenticated(SvcError):
    """Nobody is logged in, or the session is over."""

    code = "unauthenticated"


class Forbidden(SvcError):
    """Somebody is logged in who may not do this."""

    code = "forbidden"


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody who is logged in. `roles` says by Project what they are; `*` stands for every Project."""

    name: str
    roles: Mapping[str, Role]

    def role(self, project: str) -> Role | None:
        """Return the stronger of the roles in a Project and in all."""
        found = [self.roles[key] for key in (project, ALL_PROJECTS) if key in self.roles]
        return max(found, key=_RANK.__getitem__, default=None)

    def require(self, project: str, role: Role) -> None:
        """Raise `Forbidden` without at least this role in the Project."""
        has = self.role(project)
        if has is None or _RANK[has] < _RANK[role]:
            what = f"is only {has} of" if has else "has no part in"
            raise Forbidden(
                f"{self.name} {what} the Project {project}; this needs the role {role}",
                f"An owner of {project} can give it.",
            )


class Authenticator(Protocol):
    """Knows whose a token is."""

    async def principal(self, token: str) -> Principal | None:
        """Return who shows this token; `None` when it is nobody's, or no longer."""
        ...


class StaticToken:
    """The authority of a Project in its developer's hands: who may read its folder may do everything."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    async def principal(self, token: str) -> Principal | None:
        """Return the developer for their token."""
        right = hmac.compare_digest(token.encode("utf-8", "surrogateescape"), self._token)
        return Principal("developer", {ALL_PROJECTS: "owner"}) if right else None


class AnyOf:
    """Several authorities in one: a token is whose it is for the first that knows it."""

    def __init__(self, *authorities: Authenticator) -> None:
        self._authorities = authorities

    async def principal(self, token: str) -> Principal | None:
        """Return who shows this token."""
        for authority in self._authorities:
            if (found := await authority.principal(token)) is not None:
                return found
        return None
