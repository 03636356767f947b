"""Writes of guests that one node sends to another, which writes to the same tables.

Two nodes that write to one project at the same time lose conflicts to each other. A node that has lost one
sends writes for a while to the node that wrote last. Any node may write at any time: the log decides.
"""

import json
import math
import time
from collections.abc import Awaitable, Callable

from doors.tables.replication.errors import ReplicationError
from engine.door import Caller, DoorRequest, DoorResponse
from engine.errors import SvcError
from engine.replication import ReplicatedLog

FORWARD_SECONDS = 2.0
"""How long a node that lost a conflict forwards writes, before it tries again itself."""
MAX_BODY = 1 << 20
"""Larger requests are not forwarded."""
Execute = Callable[[DoorRequest], Awaitable[DoorResponse]]


class Forwarding:
    """The forwarding of the writes to one project. Use on the event loop of the log."""

    def __init__(self, log: ReplicatedLog, name: str) -> None:
        self._log, self._name = log, name
        self._until, self._received = 0.0, -math.inf
        """Until when this node forwards, and when it ran a request of another node."""
        self.execute: Execute | None = None
        """Runs a request on this node."""

    def on_conflict(self) -> None:
        """Note that another node wrote first. A node to which others forward does not forward."""
        if time.monotonic() - self._received > FORWARD_SECONDS:
            self._until = time.monotonic() + FORWARD_SECONDS

    def target(self, writer: str, body: bytes) -> str:
        """Return the node to which to send a request, or an empty string. `writer` wrote last."""
        if time.monotonic() > self._until or writer in ("", self._log.node) or len(body) > MAX_BODY:
            return ""
        return writer if self._log.present(writer) else ""

    async def send(self, node: str, request: DoorRequest) -> DoorResponse | None:
        """Run a request on another node. Returns None if that node does not run it.

        Raises `ReplicationError` if no answer came: the request may have been run.
        """
        caller = [request.caller.resource, request.caller.request_id]
        head = json.dumps({"path": request.path, "caller": caller, "node": self._log.node}).encode()
        try:
            answer = await self._log.send(node, self._name, head + b"\n" + request.body)
        except SvcError as error:
            raise ReplicationError(
                "unavailable",
                f"the node {node} did not answer the write, which may be stored or not: {error.message}",
                "Repeat it with its idempotency key, or check first.",
            ) from error
        if answer is None:
            self._until = 0.0
            return None
        line, _, body = answer.partition(b"\n")
        document = json.loads(line)
        headers = tuple((name, value.encode("latin-1")) for name, value in document["headers"])
        return DoorResponse(document["status"], body, headers)

    async def receive(self, content: bytes) -> bytes | None:
        """Run a request of another node and return the encoded response; None to let that node run it."""
        if self.execute is None:
            return None
        line, _, body = content.partition(b"\n")
        document = json.loads(line)
        if time.monotonic() < self._until:  # Two nodes that forwarded to each other would both write.
            if document["node"] < self._log.node:
                return None
            self._until = 0.0
        self._received = time.monotonic()
        caller = Caller(*document["caller"])
        request = DoorRequest("POST", document["path"], query="", headers=(), body=body, caller=caller)
        response = await self.execute(request)
        headers = [(name, value.decode("latin-1")) for name, value in response.headers]
        head = json.dumps({"status": response.status, "headers": headers}).encode()
        return head + b"\n" + response.body
