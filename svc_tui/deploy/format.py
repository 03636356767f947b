"""How deploys are shown: what changes, where Resources are, when it was. Owns these words and lines."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from rich.text import Text

_UNITS = ("bytes", "kB", "MB", "GB")


def plan_lines(planned: dict[str, Any]) -> list[Text]:
    """Return the lines of a plan: what changes, and the migrations that would be applied."""
    new = [Text.assemble(("  + ", "green"), (name, "bold"), "  migration") for name in planned["migrations"]]
    return [*change_lines(planned["changes"]), *new]


@dataclass(frozen=True, slots=True)
class Difference:
    """What changes of a Resource: `+` comes, `-` goes, `~` changes, `!` needs the deployer's word."""

    mark: Literal["+", "-", "~", "!"]
    resource: str
    text: str


_STYLES = {"!": "bold yellow", "+": "green", "-": "red", "~": "cyan"}


def change_lines(changes: Sequence[dict[str, Any]]) -> list[Text]:
    """Return a line a difference."""
    width = max((len(change["resource"]) for change in changes), default=0)
    return [
        Text.assemble(
            (f"  {each.mark} ", _STYLES[each.mark]), (f"{each.resource:<{width}}  ", "bold"), each.text
        )
        for each in differences(changes)
    ]


def differences(changes: Sequence[dict[str, Any]]) -> list[Difference]:
    """Return changes that the control API tells of, for a person."""
    return [_difference(change) for change in changes]


def _difference(change: dict[str, Any]) -> Difference:
    before, after = (_short(change[side]) for side in ("before", "after"))
    resource = change["resource"]
    if change["grave"]:
        return Difference("!", resource, f"now imports {after}")
    if not before:
        return Difference("+", resource, f"{change['what']}  {after}")
    if not after:
        return Difference("-", resource, f"{change['what']}  {before}")
    return Difference("~", resource, f"{change['what']}  {before} → {after}")


def _short(value: str) -> str:
    """Return a value for a person; that of an artifact is its digest and its bytes."""
    digest, _, count = value.partition(" ")
    if not digest.startswith("sha256:"):
        return value
    return f"{digest[:19]}… ({size(int(count))})" if count else f"{digest[:19]}…"


def address_lines(addresses: Sequence[dict[str, Any]]) -> list[Text]:
    """Return a line a Resource: its address, or where a private one is mounted."""
    width = max((len(each["resource"]) for each in addresses), default=0)
    return [
        Text.assemble((f"{each['resource']:<{width}}", "cyan"), f"  {each['lane']:<6}  {location(each)}")
        for each in addresses
    ]


def location(address: dict[str, Any]) -> str:
    """Return where a Resource is, by its address that the control API tells."""
    mounted = ", ".join(address["mounted"])
    return address["url"] or (f"private, mounted at {mounted}" if mounted else "private, not mounted")


def latest_rollback(flips: Sequence[dict[str, Any]], live: str) -> dict[str, Any] | None:
    """Return the latest flip if it went back to the deployment that is live: not the first that it had."""
    own = [flip for flip in flips if flip["deployment"] == live]
    return own[0] if len(own) > 1 else None


def local_time(time: str) -> str:
    """Return a time of the API as one of this machine's clock."""
    return datetime.fromisoformat(time).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def files(count: int) -> str:
    """Return a number of files for a person."""
    return "1 file" if count == 1 else f"{count} files"


def size(count: float) -> str:
    """Return a number of bytes for a person: `512 bytes`, `1.2 MB`."""
    for unit in _UNITS:
        if count < 1000 or unit == _UNITS[-1]:
            break
        count /= 1000
    return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
