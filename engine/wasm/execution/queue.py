"""Requests that wait for a slot, a line of them for each Project. Owns these lines; who may go is `pool.py`'s
to say.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping

Place = asyncio.Future[bool]
"""A request in the queue; its result is whether it has a slot, or gave way."""


class Queue:
    """The lines of all Projects that have requests waiting, at most `places` together."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._taken = 0
        self._lines: OrderedDict[str, OrderedDict[Place, None]] = OrderedDict()

    def join(self, project: str) -> Place | None:
        """Put a request at the end of its Project's line; return `None` where there is no place for it.

        When all places are taken, the Project that has most of them gives one up, its latest, to one that
        would not come to have as many.
        """
        if self._taken >= self._places:
            longest = max(self._lines, key=lambda each: len(self._lines[each]), default=project)
            if len(self._lines.get(project, ())) + 1 >= len(self._lines.get(longest, ())):
                return None
            self._pop(longest, last=True).set_result(False)
        place = asyncio.get_running_loop().create_future()
        self._lines.setdefault(project, OrderedDict())[place] = None
        self._taken += 1
        return place

    def leave(self, project: str, place: Place) -> None:
        """Take a request out of the queue, if it is still in there."""
        if place in self._lines.get(project, ()):
            del self._lines[project][place]
            self._gone(project)

    def next(self, held: Mapping[str, int]) -> str | None:
        """Return the Project whose turn it is: of those that wait, the one that holds the fewest slots.

        Of several, the one that has waited longest since its last turn. `held` has no zeros.
        """
        return min(self._lines, key=lambda project: held.get(project, 0), default=None)

    def call(self, project: str) -> None:
        """Give the first of a Project's line a slot."""
        self._lines.move_to_end(project)
        self._pop(project, last=False).set_result(True)

    def _pop(self, project: str, *, last: bool) -> Place:
        place, _ = self._lines[project].popitem(last=last)
        self._gone(project)
        return place

    def _gone(self, project: str) -> None:
        self._taken -= 1
        if not self._lines[project]:
            del self._lines[project]
