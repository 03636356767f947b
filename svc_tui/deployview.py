"""How deploys are shown: what changes, and where Resources are. Owns the layout of these lines."""

from collections.abc import Sequence
from typing import Any

from rich.text import Text

_UNITS = ("bytes", "kB", "MB", "GB")


def plan_lines(planned: dict[str, Any]) -> list[Text]:
    """Return the lines of a plan: what changes, and the migrations that would be applied."""
    new = [Text.assemble(("  + ", "green"), (name, "bold"), "  migration") for name in planned["migrations"]]
    return [*change_lines(planned["changes"]), *new]


def change_lines(changes: Sequence[dict[str, Any]]) -> list[Text]:
    """Return a line a difference: `+` comes, `-` goes, `~` changes, `!` needs the deployer's word."""
    width = max((len(change["resource"]) for change in changes), default=0)
    return [_change(change, width) for change in changes]


def _change(change: dict[str, Any], width: int) -> Text:
    before, after = (_short(change[side]) for side in ("before", "after"))
    if change["grave"]:
        mark, style, text = "!", "bold yellow", f"now imports {after}"
    elif not before:
        mark, style, text = "+", "green", f"{change['what']}  {after}"
    elif not after:
        mark, style, text = "-", "red", f"{change['what']}  {before}"
    else:
        mark, style, text = "~", "cyan", f"{change['what']}  {before} → {after}"
    return Text.assemble((f"  {mark} ", style), (f"{change['resource']:<{width}}  ", "bold"), text)


def _short(value: str) -> str:
    """Return a value for a person; that of an artifact is its digest and its bytes."""
    digest, _, count = value.partition(" ")
    if not digest.startswith("sha256:"):
        return value
    return f"{digest[:19]}… ({size(int(count))})" if count else f"{digest[:19]}…"


def address_lines(addresses: Sequence[dict[str, Any]]) -> list[Text]:
    """Return a line a Resource: its address, or where a private one is mounted."""
    width = max((len(each["resource"]) for each in addresses), default=0)
    lines = []
    for each in addresses:
        mounted = ", ".join(each["mounted"])
        place = each["url"] or (f"private, mounted at {mounted}" if mounted else "private, not mounted")
        lines.append(Text.assemble((f"{each['resource']:<{width}}", "cyan"), f"  {each['lane']:<6}  {place}"))
    return lines


def size(count: float) -> str:
    """Return a number of bytes for a person: `512 bytes`, `1.2 MB`."""
    for unit in _UNITS:
        if count < 1000 or unit == _UNITS[-1]:
            break
        count /= 1000
    return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
