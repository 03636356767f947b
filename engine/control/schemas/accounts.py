"""Request and response models for accounts.

Times are ISO 8601 in UTC. `roles` maps projects to roles; `*` stands for every project.
"""

from typing import Annotated

from pydantic import Field, StringConstraints

from engine.control.access import Role
from engine.control.auth.accounts import MAX_LENGTH, MAX_ROLES, MIN_LENGTH
from engine.control.schemas import StrictModel
from engine.manifest.schema import NAME_LENGTH, NAME_PATTERN

TOKEN_NAME_PATTERN = "^[a-z0-9][a-z0-9._-]{0,38}$"
SCOPE_PATTERN = rf"^(\*|{NAME_PATTERN[1:-1]})$"
MAX_TOKEN_DAYS = 365

Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN, max_length=NAME_LENGTH)]
Scope = Annotated[str, StringConstraints(pattern=SCOPE_PATTERN, max_length=NAME_LENGTH)]
TokenName = Annotated[str, StringConstraints(pattern=TOKEN_NAME_PATTERN)]
Password = Annotated[str, StringConstraints(max_length=MAX_LENGTH)]
NewPassword = Annotated[str, StringConstraints(min_length=MIN_LENGTH, max_length=MAX_LENGTH)]
Roles = Annotated[dict[Scope, Role], Field(max_length=MAX_ROLES)]


class ClaimCheck(StrictModel):
    """The claim code of a service."""

    code: Annotated[str, StringConstraints(min_length=1, max_length=100)]


class ClaimRequest(ClaimCheck):
    """The claim code, and the first owner's credentials."""

    user: Name
    password: NewPassword


class ClaimOut(StrictModel):
    """Whether the service has an owner."""

    claimed: bool


class LoginRequest(StrictModel):
    """A user name and a password."""

    user: Name
    password: Password


class SessionOut(StrictModel):
    """A new session. `token` is only returned here."""

    token: str
    user: str
    roles: dict[str, Role]
    expires: str


class WhoamiOut(StrictModel):
    """The caller. `token` is the name of the API token in use; `expires` is when the credentials expire."""

    user: str
    token: str | None
    roles: dict[str, Role]
    expires: str | None


class RevokedOut(StrictModel):
    """How many sessions or tokens were revoked, or users removed."""

    revoked: int


class PasswordRequest(StrictModel):
    """The current and the new password."""

    old: Password
    new: NewPassword


class TokenRequest(StrictModel):
    """A new API token: its role, projects and lifetime in days."""

    name: TokenName
    role: Role
    projects: Annotated[list[Scope], Field(min_length=1, max_length=MAX_ROLES)]
    days: Annotated[int, Field(ge=1, le=MAX_TOKEN_DAYS)] = 90


class TokenOut(StrictModel):
    """An API token, without its secret. `used` is its latest use, to the hour."""

    name: str
    role: Role
    projects: list[str]
    created: str
    expires: str
    used: str | None


class NewTokenOut(TokenOut):
    """A new API token. `token` is only returned here."""

    token: str


class TokenList(StrictModel):
    """The caller's API tokens."""

    tokens: list[TokenOut]


class UserOut(StrictModel):
    """A user and their roles, as far as the caller may see them."""

    name: str
    roles: dict[str, Role]
    created: str


class UserList(StrictModel):
    """Users, sorted by name."""

    users: list[UserOut]


class UserRequest(StrictModel):
    """A new user with roles, or a new password of an existing user."""

    password: NewPassword
    roles: Roles = Field({})


class RoleRequest(StrictModel):
    """A role."""

    role: Role
