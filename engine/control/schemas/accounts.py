"""What requests about accounts and their answers look like. Owns these shapes, which /openapi.json shows.

Times are ISO 8601 in UTC; `roles` are by Project, `*` stands for every Project.
"""

from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import Field, StringConstraints

from engine.control.access import Role
from engine.control.auth.accounts import MOST_ROLES, User
from engine.control.auth.passwords import LONGEST, SHORTEST
from engine.control.auth.sessions import SECOND_NS, Session
from engine.control.schema import Shape
from engine.manifest.schema import NAME_LENGTH, NAME_PATTERN

TOKEN_NAME_PATTERN = "^[a-z0-9][a-z0-9._-]{0,38}$"
SCOPE_PATTERN = rf"^(\*|{NAME_PATTERN[1:-1]})$"
MOST_DAYS = 365

Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN, max_length=NAME_LENGTH)]
Scope = Annotated[str, StringConstraints(pattern=SCOPE_PATTERN, max_length=NAME_LENGTH)]
TokenName = Annotated[str, StringConstraints(pattern=TOKEN_NAME_PATTERN)]
Password = Annotated[str, StringConstraints(max_length=LONGEST)]
NewPassword = Annotated[str, StringConstraints(min_length=SHORTEST, max_length=LONGEST)]
Roles = Annotated[dict[Scope, Role], Field(max_length=MOST_ROLES)]


class Claim(Shape):
    """The claim code, and who wants to be the first owner."""

    code: Annotated[str, StringConstraints(min_length=1, max_length=100)]
    user: Name
    password: NewPassword


class Claimed(Shape):
    """Whether the service has an owner."""

    claimed: bool


class Credentials(Shape):
    """A user name and a password."""

    user: Name
    password: Password


class OpenSession(Shape):
    """A session that begins. `token` is told this once."""

    token: str
    user: str
    roles: dict[str, Role]
    expires: str


class Who(Shape):
    """Who asks. `token` is the name of the token for programs that is shown, `expires` when that ends."""

    user: str
    token: str | None
    roles: dict[str, Role]
    expires: str | None


class Ended(Shape):
    """How many were ended or removed."""

    ended: int


class PasswordChange(Shape):
    """A user's password, and the one to take its place."""

    old: Password
    new: NewPassword


class TokenWish(Shape):
    """A token for programs: what it may do at most, in which Projects, and how many days."""

    name: TokenName
    role: Role
    projects: Annotated[list[Scope], Field(min_length=1, max_length=MOST_ROLES)]
    days: Annotated[int, Field(ge=1, le=MOST_DAYS)] = 90


class TokenShown(Shape):
    """A token for programs, without what shows it."""

    name: str
    role: Role
    projects: list[str]
    created: str
    expires: str
    used: str

    @classmethod
    def of(cls, token: Session) -> "TokenShown":
        """Return a token as it is shown."""
        return cls(**_token(token))


class NewToken(TokenShown):
    """A new token. `token` is told this once."""

    token: str

    @classmethod
    def made(cls, token: Session, shown: str) -> "NewToken":
        """Return a new token with what shows it."""
        return cls(token=shown, **_token(token))


class Tokens(Shape):
    """The caller's tokens for programs."""

    tokens: list[TokenShown]


class UserShown(Shape):
    """A user, and what the caller may know of their roles."""

    name: str
    roles: dict[str, Role]
    created: str

    @classmethod
    def of(cls, user: User) -> "UserShown":
        """Return a user as they are shown."""
        return cls(name=user.name, roles=dict(user.roles), created=iso(user.created_ns))


class Users(Shape):
    """Users by name."""

    users: list[UserShown]


class UserWish(Shape):
    """A new user, or another password for one. The roles are those of a new user."""

    password: NewPassword
    roles: Roles = Field({})


class RoleWish(Shape):
    """A role."""

    role: Role


def iso(time_ns: int) -> str:
    """Return a time as text, to the second."""
    return datetime.fromtimestamp(time_ns // SECOND_NS, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _token(token: Session) -> dict[str, Any]:
    return {
        "name": token.name,
        "role": token.role,
        "projects": list(token.projects),
        "created": iso(token.created_ns),
        "expires": iso(token.expires_ns),
        "used": iso(token.used_ns),
    }
