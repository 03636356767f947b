"""Ends streams whose caller has lost the rights that the request began with.

Every authenticated request is watched, so routes of streams need no code for it. Others use
`RequestAccess.run` for work that may take long. Both end within a second of a revoked token, an expired
session, a removed user or a role that no longer suffices.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from engine.control.access import Authenticator, Principal, Role, Unauthenticated
from engine.errors import SvcError

_T = TypeVar("_T")
CHECK_SECONDS = 0.25
"""Time between two checks of the rights behind open streams."""
MAX_REQUESTS = 128
"""Maximum requests of one user in progress, streams included."""


def authenticated(principal: Principal | None) -> Principal:
    """Return the principal. Raises `Unauthenticated` without one."""
    if principal is None:
        raise Unauthenticated("not logged in", "Log in with `svc login`.")
    return principal


@dataclass(eq=False, slots=True)
class RequestAccess:
    """The rights of one request: the token of its caller, and the roles that its route required.

    `on_lost` receives the reason at every check that fails.
    """

    watch: "AccessWatch"
    token: str
    user: str
    on_lost: Callable[[SvcError], None]
    required: list[tuple[str, Role]] = field(default_factory=list)

    async def run(self, work: Awaitable[_T]) -> _T:
        """Return the result of work, which is canceled when the rights are lost. Raises `SvcError` then."""
        task, lost, before = asyncio.ensure_future(work), list[SvcError](), self.on_lost

        def cancel(error: SvcError) -> None:
            lost.append(error)
            task.cancel()

        self.on_lost = cancel
        try:
            return await task
        except asyncio.CancelledError:
            if lost:
                raise lost[0] from None
            raise
        finally:
            self.on_lost = before

    def unwatch(self) -> None:
        self.watch.remove(self)


class AccessWatch:
    """Checks the rights of the requests in progress, each token once in `CHECK_SECONDS`.

    A token whose rights take long to read delays no other.
    """

    def __init__(self, authenticator: Authenticator, describe: Callable[[Exception], SvcError]) -> None:
        """`describe` returns the error that callers see for an unexpected exception."""
        self._authenticator = authenticator
        self._describe = describe
        self._watched: dict[RequestAccess, None] = {}
        self._of_user: Counter[str] = Counter()
        self._checking: asyncio.Task[None] | None = None

    def add(self, token: str, user: str, on_lost: Callable[[SvcError], None]) -> RequestAccess:
        """Watch a request with this token until `unwatch`. Raises `SvcError` above `MAX_REQUESTS`."""
        if self._of_user[user] >= MAX_REQUESTS:
            hint = "Close streams that you do not need, or wait."
            raise SvcError(f"{MAX_REQUESTS} requests of {user} are in progress", hint, code="unavailable")
        access = RequestAccess(self, token, user, on_lost)
        self._watched[access] = None
        self._of_user[user] += 1
        if self._checking is None:
            self._checking = asyncio.create_task(self._check_repeatedly())
        return access

    def remove(self, access: RequestAccess) -> None:
        if access in self._watched:
            del self._watched[access]
            self._of_user[access.user] -= 1
            if not self._of_user[access.user]:
                del self._of_user[access.user]

    def end(self, project: str) -> None:
        """End the streams of a project that was removed."""
        error = SvcError(f"the project {project} was removed", code="not-found")
        for access in list(self._watched):
            if any(name == project for name, _ in access.required):
                access.on_lost(error)

    async def _check_repeatedly(self) -> None:
        checks: dict[str, asyncio.Task[None]] = {}
        try:
            while self._watched:
                await asyncio.sleep(CHECK_SECONDS)
                checks = {token: check for token, check in checks.items() if not check.done()}
                for token in {access.token for access in self._watched} - checks.keys():
                    checks[token] = asyncio.create_task(self._check(token))
        finally:
            for check in checks.values():
                check.cancel()
            self._checking = None

    async def _check(self, token: str) -> None:
        lost: SvcError | None = None
        try:
            caller = authenticated(await self._authenticator.principal(token))
        except Exception as error:
            # Rights that cannot be read are not granted, as for a new request.
            lost = error if isinstance(error, SvcError) else self._describe(error)
        for access in [access for access in self._watched if access.token == token]:
            try:
                if lost is not None:
                    raise lost
                for project, role in access.required:
                    caller.require(project, role)
            except SvcError as error:
                access.on_lost(error)
