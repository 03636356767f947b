"""Model of the Board: manifest, status and diagram of a project, and what they say about an item.

Does not import Textual.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from screens.board import cards
from screens.board.cards import Line
from screens.board.diagram import DOOR_ROWS, EMPTY, Use, build_diagram, door_key, door_of
from screens.board.layout import Hit
from screens.board.project import (
    BoardDoor,
    BoardMount,
    BoardResource,
    DrawnMount,
    Health,
    Manifest,
    MountEdit,
    ProjectStatus,
)
from screens.logs.format import began, method, status
from screens.project_client import ProjectClient
from screens.widgets.rows import Piece, PlacedColumn, Tone, fit_cell
from svc_tui.terminal.units import clock, duration

REQUEST_CELLS = 46
"""Minimum width of a request."""
GAP = 3
"""Cells between details and requests."""
_AROUND = 35
"""Cells of a request without its path."""


def request_lines(records: Sequence[Mapping[str, Any]], room: int) -> list[Line]:
    """Return records of requests, newest first, in lines of `room` cells."""
    if not records:
        return [(("no requests in the last hour", "dim"),)]
    path = PlacedColumn(0, max(room - _AROUND, 8), False)
    return [
        (
            (f"{clock(began(record) + record['wall_ns'])}  ", "dim"),
            method(record["method"]),
            (" ", ""),
            *fit_cell(((record["target"], ""),), path),
            ("  ", ""),
            status(record["status"]),
            (f"  {duration(record['wall_ns']):>7}", ""),
        )
        for record in reversed(records)
    ]


_READ_ONLY = "You can view this live version. Changing its mounts requires the role deployer."
_ADD_RESOURCE = "Add a table [resource.NAME] to svc.toml"
RECENT_SECONDS = 4
"""Age of requests that may not have been fetched yet."""
_ARROW: Piece = (" → ", "dim")
_NO_MOUNTS = "No mounts yet. Press c, or drag from one resource to another, to mount it under a path."


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A node or an edge as the Board describes it: status line, title and details, and its URL.

    `requested` is the resource whose requests belong to it: itself, the target or user of an edge. `door` is
    the Door of a node or of a use.
    """

    summary: Line = ()
    title: str = ""
    details: Sequence[cards.Labeled] = ()
    requested: str | None = None
    door: str | None = None
    address: str | None = None


class BoardModel:
    """The data of the Board. Queries about an item accept None for no item."""

    def __init__(self) -> None:
        self.loaded = False
        """True once manifest and status were fetched."""
        self.manifest = Manifest({}, ())
        self.status = ProjectStatus()
        self.diagram = EMPTY
        self.unused_doors = ""
        """A line about the Doors without a card."""
        self._inputs: tuple[object, ...] = ()
        self._requests: tuple[str, Sequence[Mapping[str, Any]]] = ("", ())
        self._requests_at = 0.0

    async def fetch(self, client: ProjectClient) -> bool:
        """Fetch manifest and status; return whether svc.toml has changed. Raises `SvcError`."""
        manifest = Manifest.from_json(await client.call("GET", "/manifest"))
        self.status = ProjectStatus.from_json(await client.call("GET", "/state"))
        changed = self.loaded and manifest.digest != self.manifest.digest
        self.manifest, self.loaded = manifest, True
        return changed

    async def fetch_requests(self, client: ProjectClient, hit: Hit | None, count: int) -> bool:
        """Fetch the last requests of an item; return whether there are new ones. Raises `SvcError`."""
        if (name := self.item(hit).requested) is None:
            return False
        history, now = self.health(name).history, time.monotonic()
        missed = int(now - self._requests_at) + RECENT_SECONDS
        if name == self._requests[0] and missed < len(history) and not any(history[-missed:]):
            return False
        self._requests_at = now
        params = {"resource": name, "status": ">=100", "since": 3600, "n": count}
        if client.in_fleet:
            params = {"resource": name, "status": ">=100", "since": 3600, "tail": count}
            lines = await asyncio.to_thread(lambda: list(client.lines("GET", "/logs", params=params)))
            records = [line for line in lines if "kind" in line]
        else:
            records = (await client.call("GET", "/logs/window", params=params))["records"]
        changed = (name, records) != self._requests
        self._requests = name, records
        return changed

    async def layout(self, edits: Sequence[MountEdit], width: int, rows: int) -> bool:
        """Compute the diagram with unsaved edits; return False if it is the same as before.

        `width` is in cells. Nodes spread over at most `rows` rows; unused Doors beyond them have no card.
        """
        manifest = self.manifest
        doors = {name: frozenset(door.users) for name, door in self.status.doors.items()}
        unused = [name for name, users in doors.items() if not (users or self.status.doors[name].count)]
        del unused[: max((rows + 2) // DOOR_ROWS - len(doors) + len(unused), 0)]
        self.unused_doors = f"Unused Doors: {', '.join(unused)}" if unused else ""
        doors = {name: users for name, users in doors.items() if name not in unused}
        inputs = (manifest.resources, manifest.mounts, edits, doors, width, rows)
        if inputs == self._inputs:
            return False
        self._inputs = inputs
        diagram = await asyncio.to_thread(build_diagram, manifest, edits, doors, width, rows)
        if inputs == self._inputs:
            self.diagram = diagram
        return inputs == self._inputs

    def names(self) -> list[str]:
        return [door_of(key) or key for key in self.diagram.layout.boxes]

    def node(self, name: str) -> str | None:
        """Return the key of the resource or Door of this name."""
        return next((key for key in (name, door_key(name)) if key in self.diagram.layout.boxes), None)

    # Queries about the selected node or edge

    def mount(self, hit: Hit | None) -> DrawnMount | None:
        return self.diagram.mounts.get(hit.key) if hit is not None else None

    def resource(self, hit: Hit | None) -> str | None:
        return hit.key if hit is not None and hit.key in self.manifest.resources else None

    def health(self, name: str) -> Health:
        return self.status.resources.get(name, Health())

    def _door(self, name: str) -> BoardDoor:
        return self.status.doors.get(name, BoardDoor())

    def _mount_address(self, mount: BoardMount) -> str | None:
        address = self.health(mount.source).address
        return address.rstrip("/") + mount.pattern.removesuffix("*") if address else None

    def item(self, hit: Hit | None) -> Item:
        """Return what the Board says about a node or an edge, or about the project."""
        diagram = self.diagram
        for items in (diagram.mounts, diagram.fallbacks, diagram.uses, self.manifest.resources):
            if hit is not None and hit.key in items:
                return self._item(items[hit.key])
        door = door_of(hit.key) if hit is not None else None
        return Item(address=self.status.address) if door is None else self._item(door)

    def _item(self, item: DrawnMount | BoardMount | Use | BoardResource | str) -> Item:
        """Return what the Board says about a mount, a fallback, a use, a resource, or the Door of a name."""
        match item:
            case DrawnMount(BoardMount(source, pattern, target) as mount, mark):
                rate = cards.format_rate(self.status.mounts.get((source, pattern), 0.0))
                state: Piece = (f"   {mark}, not saved yet", "accent") if mark else (f"   {rate}", "")
                paths = f"the path {pattern}"
                if pattern.endswith("/*"):
                    paths = f"{pattern[:-2] or '/'} and all paths below it"
                return Item(
                    summary=((source, "bold"), (pattern, "accent"), _ARROW, (target, "bold"), state),
                    title=f"{source}{pattern}",
                    details=(
                        ("requests", [f"to {source}, for {paths}"]),
                        ("answered by", [((target, "bold"),)]),
                        ("last minute", [rate]),
                    ),
                    requested=target,
                    address=self._mount_address(mount),
                )
            case BoardMount(source, _, target):
                return Item(
                    summary=((source, "bold"), _ARROW, (target, "bold"), ("  as fallback", "dim")),
                    title=f"{source} → {target}",
                    details=(
                        ("requests", [f"to {source}, without a mount and a file"]),
                        ("answered by", [((target, "bold"),)]),
                        ("", [((f"a line of [resource.{source}] in svc.toml", "dim"),)]),
                    ),
                    requested=target,
                    address=self.health(source).address,
                )
            case BoardResource(name=name) as resource:
                health, mounts = self.health(name), self.manifest.mounts
                outgoing = [mount for mount in mounts if mount.source == name]
                incoming = [mount for mount in mounts if mount.target == name]
                routes = [f"{mount.source}:{mount.pattern}" for mount in incoming]
                others = self.manifest.resources.values()
                routes += [f"{other.name} as fallback" for other in others if other.fallback == name]
                limits = cards.service_limits(self.status)
                return Item(
                    summary=cards.resource_summary(resource, health),
                    title=f"{name}  {resource.lane}",
                    details=cards.resource_details(resource, health, outgoing, routes, limits),
                    requested=name,
                    # A private resource has the URL of its first mount.
                    address=health.address or next(filter(None, map(self._mount_address, incoming)), None),
                )
            case Use(name, door):
                calls = self._door(door).users.get(name, 0)
                times = "once" if calls == 1 else f"{calls:,} times"
                since: Piece = (f"   called {times} since the start", "")
                summary: Line = ((name, "bold"), _ARROW, (door, "bold"), since)
                return replace(self._item(door), summary=summary, title=f"{name} → {door}", requested=name)
            case door:
                about = f"  Door, an API for your code: {self._door(door).purpose}"
                return Item(
                    summary=((door, "bold"), (about, "dim")),
                    title=f"{door}  Door",
                    details=cards.door_details(door, self._door(door)),
                    door=door,
                    address=self.status.address,
                )

    # Text

    def details(self, hit: Hit | None, width: int) -> tuple[str, list[Line]] | None:
        """Return title and text of an item with its last requests, or None without an item."""
        item = self.item(hit)
        if not item.title or (name := item.requested) is None:
            return (item.title, cards.table(item.details, width)) if item.title else None
        if width < 2 * REQUEST_CELLS + GAP or self.health(name).state == "failed":
            return item.title, [*cards.table(item.details, width), (), *self._activity(name, width)]
        left = PlacedColumn(0, width // 2 - GAP, False)
        activity = self._activity(name, width - left.width - GAP)
        pairs = zip_longest(cards.table(item.details, left.width), activity, fillvalue=())
        return item.title, [(*fit_cell(tuple(one), left), (" " * GAP, ""), *other) for one, other in pairs]

    def _activity(self, name: str, room: int) -> list[Line]:
        """Return the request rate of a resource in the last minute, and its last requests."""
        history = self.health(name).history
        label = f"{name}, last minute  "
        bars = cards.sparkline(history, max(min(len(history) or 60, room - len(label)), 1))
        requests = self._requests[1] if self._requests[0] == name else None
        lines: list[Line] = [((label, "dim"), *bars), ()]
        return lines if requests is None else [*lines, *request_lines(requests, room)]

    def cards(self) -> Mapping[str, tuple[Line, ...]]:
        """Return the text of each node of the diagram."""
        texts: dict[str, tuple[Line, ...]] = {}
        for node in self.diagram.graph.nodes:
            width = node.width - 2 * self.diagram.padding
            if (door := door_of(node.key)) is not None:
                texts[node.key] = cards.door_card(door, self._door(door), width)
            elif (resource := self.manifest.resources.get(node.key)) is not None:
                texts[node.key] = cards.resource_card(resource, self.health(node.key), width, node.height)
        return texts

    def tones(self) -> Mapping[str, Tone]:
        """Return the tone of each edited edge of the diagram, and of fallbacks."""
        mounts = {key: mount.mark for key, mount in self.diagram.mounts.items() if mount.mark}
        tones: dict[str, Tone] = dict.fromkeys(self.diagram.fallbacks, "dim")
        return tones | {key: "accent" if mark == "added" else "bad" for key, mark in mounts.items()}

    def hint(self, *, edited: bool, deployed: bool) -> str:
        """Return what the user can do next; "" if the Board needs no explanation."""
        manifest = self.manifest
        if not manifest.editable:
            return _READ_ONLY
        if len(manifest.resources) < 2:
            then = ", then run svc deploy." if deployed else " and it appears here at once."
            return f"{'One resource' if manifest.resources else 'No resources yet'}. {_ADD_RESOURCE}{then}"
        return "" if manifest.mounts or edited else _NO_MOUNTS
