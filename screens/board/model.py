"""Model of the Board: manifest, status and diagram of a project, and what they say about an item.

Does not import Textual.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
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


def beside(left: Sequence[Line], right: Sequence[Line], room: int) -> list[Line]:
    """Return two texts side by side, the left one in `room` cells."""
    column = PlacedColumn(0, room, False)
    return [
        (*fit_cell(tuple(first), column), (" " * GAP, ""), *second)
        for first, second in zip_longest(left, right, fillvalue=())
    ]


_READ_ONLY = "You can view this live version. Changing its mounts requires the role deployer."
_ADD_RESOURCE = "Add a table [resource.NAME] to svc.toml"
RECENT_SECONDS = 4
"""Age of requests that may not have been fetched yet."""
_ARROW: Piece = (" → ", "dim")
_NO_MOUNTS = "No mounts yet. Press c, or drag from one resource to another, to mount it under a path."


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
        name = self.requested(hit)
        if name is None:
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

    def _item(self, hit: Hit | None) -> DrawnMount | BoardMount | Use | BoardResource | str | None:
        """Return a mount, a fallback with its label as pattern, a use, a resource, or the name of a Door."""
        if hit is None:
            return None
        kinds: tuple[Mapping[str, DrawnMount | BoardMount | Use | BoardResource], ...]
        kinds = self.diagram.mounts, self.diagram.fallbacks, self.diagram.uses, self.manifest.resources
        return next((items[hit.key] for items in kinds if hit.key in items), door_of(hit.key))

    def requested(self, hit: Hit | None) -> str | None:
        """Return the resource whose requests belong to an item: itself, the target or user of an edge."""
        match self._item(hit):
            case DrawnMount(BoardMount(target=name)) | BoardMount(target=name):
                return name
            case Use(name) | BoardResource(name=name):
                return name
        return None

    def door_name(self, hit: Hit | None) -> str | None:
        """Return the name of the Door of a node, or of the Door use of an edge."""
        match self._item(hit):
            case Use(door=name) | str(name):
                return name
        return None

    def health(self, name: str) -> Health:
        return self.status.resources.get(name, Health())

    def _door(self, name: str) -> BoardDoor:
        return self.status.doors.get(name, BoardDoor())

    def address(self, hit: Hit | None) -> str | None:
        """Return the URL of an item. A private resource has the URL of its first mount."""
        match self._item(hit):
            case DrawnMount(mount):
                return self._mount_address(mount)
            case BoardMount(source):
                return self.health(source).address
            case BoardResource(name=name):
                mounts = (each for each in self.manifest.mounts if each.target == name)
                addresses = [self.health(name).address, *map(self._mount_address, mounts)]
                return next(filter(None, addresses), None)
        return self.status.address

    def _mount_address(self, mount: BoardMount) -> str | None:
        address = self.health(mount.source).address
        return address.rstrip("/") + mount.pattern.removesuffix("*") if address else None

    # Text

    def summary(self, hit: Hit | None) -> Line:
        """Return the status line of an item."""
        match self._item(hit):
            case DrawnMount(mount, mark):
                rate = cards.format_rate(self._mount_rate(mount))
                state: Piece = (f"   {mark}, not saved yet", "accent") if mark else (f"   {rate}", "")
                pattern: Piece = (mount.pattern, "accent")
                return (mount.source, "bold"), pattern, _ARROW, (mount.target, "bold"), state
            case BoardMount(source, _, target):
                return (source, "bold"), _ARROW, (target, "bold"), ("  as fallback", "dim")
            case BoardResource(name=name) as resource:
                return cards.resource_summary(resource, self.health(name))
            case Use(name, door):
                calls = self._door(door).users.get(name, 0)
                times = "once" if calls == 1 else f"{calls:,} times"
                return (name, "bold"), _ARROW, (door, "bold"), (f"   called {times} since the start", "")
            case str(door):
                purpose = self._door(door).purpose
                return (door, "bold"), (f"  Door, an API for your code: {purpose}", "dim")
        return ()

    def details(self, hit: Hit | None, width: int) -> tuple[str, list[Line]] | None:
        """Return title and text of an item with its last requests, or None without an item."""
        name = self.requested(hit)
        left = width
        is_wide = width >= 2 * REQUEST_CELLS + GAP
        if name is not None and is_wide and self.health(name).state != "failed":
            left = width // 2 - GAP
        if (content := self._details(hit, left)) is None or name is None:
            return content
        title, lines = content
        if left < width:
            return title, beside(lines, self._activity(name, width - left - GAP), left)
        return title, [*lines, (), *self._activity(name, width)]

    def _activity(self, name: str, room: int) -> list[Line]:
        """Return the request rate of a resource in the last minute, and its last requests."""
        history = self.health(name).history
        label = f"{name}, last minute  "
        bars = cards.sparkline(history, max(min(len(history) or 60, room - len(label)), 1))
        requests = self._requests[1] if self._requests[0] == name else None
        lines: list[Line] = [((label, "dim"), *bars), ()]
        return lines if requests is None else [*lines, *request_lines(requests, room)]

    def _details(self, hit: Hit | None, width: int) -> tuple[str, list[Line]] | None:
        match self._item(hit):
            case DrawnMount(mount):
                lines = cards.mount_details(mount, self._mount_rate(mount), width)
                return f"{mount.source}{mount.pattern}", lines
            case BoardMount() as fallback:
                return f"{fallback.source} → {fallback.target}", cards.fallback_details(fallback, width)
            case Use(name, door):
                return f"{name} → {door}", cards.door_details(door, self._door(door), width)
            case str(door):
                return f"{door}  Door", cards.door_details(door, self._door(door), width)
            case BoardResource() as resource:
                return f"{resource.name}  {resource.lane}", self._resource_details(resource, width)
        return None

    def _resource_details(self, resource: BoardResource, width: int) -> list[Line]:
        name, mounts = resource.name, self.manifest.mounts
        outgoing = [mount for mount in mounts if mount.source == name]
        routes = [f"{mount.source}:{mount.pattern}" for mount in mounts if mount.target == name]
        routes += [
            f"{other} as fallback" for other, each in self.manifest.resources.items() if each.fallback == name
        ]
        limits = cards.service_limits(self.status)
        return cards.resource_details(resource, self.health(name), outgoing, routes, limits, width)

    def _mount_rate(self, mount: BoardMount) -> float:
        return self.status.mounts.get((mount.source, mount.pattern), 0.0)

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
