"""The tables Door on a machine whose tables are on another one: it answers each request with an error."""

from doors.tables.door import TablesDoor
from doors.tables.guest.problem import GuestProblem
from engine.door import DoorContext, DoorRequest, DoorResponse


class TablesElsewhere:
    """The Door `tables`, closed. It implements `engine.door.Door` and `engine.door.OpenDoor`."""

    name = TablesDoor.name
    variables = TablesDoor.variables
    max_body = TablesDoor.max_body

    def __init__(self, place: str) -> None:
        """`place` names the machine that has the tables."""
        self._place = place

    def open(self, context: DoorContext) -> "TablesElsewhere":
        """Return this Door."""
        return self

    def answer(self, request: DoorRequest) -> DoorResponse:
        """Refuse a request."""
        problem = GuestProblem(
            "elsewhere",
            f"the tables are on {self._place}; the fleet does not replicate them yet",
            "Send requests that use tables to that machine.",
        )
        return problem.response(request.caller.request_id)

    async def aclose(self) -> None:
        """Do nothing."""
