"""State of a fleet as one of its nodes observes it."""

import time
from dataclasses import dataclass

from engine.fleet.members import Presence
from engine.fleet.registry import Member


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberStatus:
    """A member as this node observes it. `skew_seconds` is `None` unless it is present.

    `seen_ns` is the Unix time of its last heartbeat, if any.
    """

    member: Member
    present: bool
    starting: bool
    draining: bool
    this: bool
    version: str
    skew_seconds: float | None
    seen_ns: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetStatus:
    """`serving` says whether the fleet serves, `healthy` whether this node's nats-server is in its quorum."""

    fleet: str
    node: str
    serving: bool
    healthy: bool
    needed: int
    members: list[MemberStatus]


def observe(member: Member, this: str, presence: Presence | None) -> MemberStatus:
    """Return the status of a member; `this` is the id of the observing node.

    `presence` is `None` before the fleet serves.
    """
    beat = presence.last(member.id) if presence is not None else None
    present = member.id in presence.present() if presence is not None else member.id == this
    return MemberStatus(
        member=member,
        present=present,
        starting=presence is not None and member.id in presence.starting(),
        draining=present and beat is not None and bool(beat.content.get("draining")),
        this=member.id == this,
        version=beat.content["version"] if beat is not None else member.version,
        skew_seconds=round(beat.skew_ns / 1e9, 1) if beat is not None and present else None,
        seen_ns=time.time_ns() - int((time.monotonic() - beat.arrived) * 1e9) if beat is not None else None,
    )
