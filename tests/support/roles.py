"""An authority for tests of the control API: each role is its own token."""

from engine.control.access import ALL_PROJECTS, Principal, Role

ROLES: tuple[Role, ...] = ("viewer", "deployer", "owner")


class EveryRole:
    """An authority that accepts the name of a role as its token."""

    async def principal(self, token: str) -> Principal | None:
        return next((Principal(role, {ALL_PROJECTS: role}) for role in ROLES if role == token), None)
