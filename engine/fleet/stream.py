"""One JetStream stream: publish with an expected sequence, direct gets, purge, and news of new messages.

The stream is the truth; republished headers only wake readers. Reads go to any replica. A replica may lag, so
a stream remembers the highest sequence that this process has seen, and asks the leader below it.
"""

import asyncio
import base64
import json
import secrets
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from engine.bucket.protocols import BucketClosed, TooLarge
from engine.fleet.connection import (
    PATIENCE_SECONDS,
    TRY_SECONDS,
    NatsConnection,
    Patience,
    error_code,
    refused,
)
from engine.fleet.errors import ConnectionInterrupted, Unavailable, UnsuitableCluster

PAGE_MESSAGES = 256
PAGE_BYTES = 4 << 20
NEWS_SECONDS = 5.0
"""How often a follower reads without news, which may be lost."""
CREATE_SECONDS, CREATE_PAUSE_SECONDS = 15, 0.2
DUPLICATE_WINDOW_NS = 120 * 10**9

_WRONG_LAST = {10071, 10164}
"""Error codes of a failed expectation. 10164: another write of the subject is in progress; it may fail."""
_INCOMPLETE_BATCH = 10176
_BATCH_LOST = {10175, _INCOMPLETE_BATCH, 10179}
"""Error codes of a batch whose messages did not all arrive, as after a change of leader."""
EXPECTED = "Nats-Expected-Last-Subject-Sequence"
MESSAGE_ID = "Nats-Msg-Id"
BATCH = "Svc-Batch"
"""Header: the id of a batch, the same in each try."""
_STORED = "Nats-Time-Stamp"
MAX_BATCH_MESSAGES = 1000
_NO_MESSAGE = 10037
_NO_PEERS, _NOT_READY = 10005, 10008
_NAME_IN_USE = 10058
_NO_STREAM = 10059


@dataclass(frozen=True, slots=True)
class Message:
    """A stored message. `subject` is below the subject of the stream."""

    subject: str
    sequence: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def time(self) -> str:
        """When the message was stored (RFC 3339)."""
        return self.headers.get(_STORED, "")


class JetStream:
    """The subjects below `<name>.<namespace>` of a stream, which other namespaces share."""

    def __init__(self, connection: NatsConnection, name: str, namespace: str) -> None:
        self._connection = connection
        self.name = name
        self._root = f"{name}.{namespace}."
        self._last_sequence = 0

    async def create(self, **config: Any) -> None:
        """Create the stream, or check that it exists. Raises `BucketError` without three servers."""
        settings = {
            "name": self.name,
            "subjects": [f"{self.name}.>"],
            "num_replicas": 3,
            "storage": "file",
            "allow_direct": True,
            "deny_delete": True,
            "duplicate_window": DUPLICATE_WINDOW_NS,
            "republish": {"src": f"{self.name}.>", "dest": f"{self.name}-news.>", "headers_only": True},
            **config,
        }
        deadline = asyncio.get_running_loop().time() + CREATE_SECONDS
        while not await self.exists(settings):
            # Servers that have just started are not known as peers at once.
            early = asyncio.get_running_loop().time() < deadline
            allowed = (_NAME_IN_USE, _NO_PEERS, _NOT_READY) if early else (_NAME_IN_USE,)
            answer = await self._connection.api(f"STREAM.CREATE.{self.name}", settings, allowed=allowed)
            if error_code(answer) is None:
                return
            await asyncio.sleep(CREATE_PAUSE_SECONDS)  # Another node may have created it meanwhile.

    async def exists(self, settings: Mapping[str, Any]) -> bool:
        """Return whether the stream exists. Raises `UnsuitableCluster` if it has other settings."""
        answer = await self._connection.api(f"STREAM.INFO.{self.name}", {}, allowed=(_NO_STREAM, _NOT_READY))
        if error_code(answer) is not None:
            return False
        if any(answer["config"].get(name) != value for name, value in settings.items()):
            raise UnsuitableCluster(
                f"the stream {self.name} of the fleet has other settings than svc uses",
                "Run the same version of svc on all nodes.",
            )
        return True

    async def publish(
        self,
        subject: str,
        content: bytes = b"",
        *,
        expected: int | None = None,
        headers: Mapping[str, str] | None = None,
        seconds: float | None = None,
    ) -> int | None:
        """Store a message and return its sequence.

        `expected` is the sequence of the last message of the subject, 0 for none; returns `None` when another
        write came first. `seconds` limits how long the write is repeated. Raises `Unavailable` when no answer
        came: the message may be stored or not.
        """
        fields = {**(headers or {}), MESSAGE_ID: secrets.token_hex(12)}
        if expected is not None:
            fields[EXPECTED] = str(expected)
        patience = Patience(f"a write to {self.name}", seconds)
        while True:
            answer = await self._connection.request(self._root + subject, content, patience, fields)
            code = error_code(answer)
            if code is None:
                self._last_sequence = max(self._last_sequence, answer["seq"])
                return int(answer["seq"])
            if code not in _WRONG_LAST:
                raise refused(f"a write to {self.name}", answer)
            last = await self.last(subject, seconds)
            if last is not None and last.headers.get(MESSAGE_ID) == fields[MESSAGE_ID]:
                return last.sequence  # An earlier try was stored.
            if (last.sequence if last is not None else 0) != expected:
                return None
            await patience.pause()  # A write is in progress, perhaps an earlier try.

    async def publish_batch(self, subject: str, contents: Sequence[bytes], *, expected: int) -> int | None:
        """Store messages of a subject, all or none of them, and return the sequence of the last.

        The stream must have `allow_atomic`. `expected` and errors are those of `publish`. Returns `None` only
        if the messages will never be stored. Raises `TooLarge` beyond `MAX_BATCH_MESSAGES`.
        """
        if not 0 < len(contents) <= MAX_BATCH_MESSAGES:
            raise TooLarge(f"a batch of messages for {self.name}", len(contents), MAX_BATCH_MESSAGES)
        batch = secrets.token_hex(12)
        patience = Patience(f"a batch of writes to {self.name}")
        while True:
            try:
                answer = await self._send_batch(subject, contents, batch, expected, patience)
            except ConnectionInterrupted:
                answer = {"error": {"err_code": _INCOMPLETE_BATCH}}
            code = error_code(answer)
            if code is None:
                self._last_sequence = max(self._last_sequence, answer["seq"])
                return int(answer["seq"])
            if code not in _WRONG_LAST | _BATCH_LOST:
                raise refused(f"a batch of writes to {self.name}", answer)
            # An earlier try may have been stored. The message after the expected one never changes.
            first = await self._get({"seq": expected + 1, "next_by_subj": self._root + subject})
            if first is not None and first.headers.get(BATCH) == batch:
                return first.sequence + len(contents) - 1
            if first is not None and first.headers.get(EXPECTED) == str(expected):
                return None
            if first is not None:  # What followed the expected message has been purged since.
                raise Unavailable(f"a batch of writes to {self.name}", PATIENCE_SECONDS)
            await patience.pause()

    async def _send_batch(
        self, subject: str, contents: Sequence[bytes], batch: str, expected: int, patience: Patience
    ) -> dict[str, Any]:
        """Send all messages of a batch; return the answer to the last one."""
        expectation = {EXPECTED: str(expected)}
        if len(contents) == 1:
            headers = {BATCH: batch, MESSAGE_ID: batch, **expectation}
            return await self._connection.request(self._root + subject, contents[0], patience, headers)
        attempt = secrets.token_hex(8)
        for number, content in enumerate(contents, 1):
            headers = {"Nats-Batch-Id": attempt, "Nats-Batch-Sequence": str(number), BATCH: batch}
            if number == 1:
                headers |= expectation
            if number == len(contents):
                headers["Nats-Batch-Commit"] = "1"
                return await self._connection.request(self._root + subject, content, patience, headers)
            await self._connection.publish(self._root + subject, content, headers=headers)
        raise AssertionError

    async def leader(self, seconds: float | None = None) -> str:
        """Return the server that leads the stream. Raises `BucketError`, as without a majority."""
        answer = await self._connection.api(f"STREAM.INFO.{self.name}", {}, seconds)
        return str(answer.get("cluster", {}).get("leader", ""))

    async def last(self, subject: str, seconds: float | None = None) -> Message | None:
        """Return the last message of a subject, as the leader of the stream has it.

        `seconds` limits how long the question is repeated.
        """
        return await self._get({"last_by_subj": self._root + subject}, seconds)

    async def last_stored(self, subject: str) -> str:
        """Return when the last message of a subject or filter was stored (RFC 3339, UTC); empty for none."""
        message = await self.last(subject)
        return message.headers[_STORED] if message is not None else ""

    async def _get(self, body: Mapping[str, Any], seconds: float | None = None) -> Message | None:
        answer = await self._connection.api(
            f"STREAM.MSG.GET.{self.name}", body, seconds, allowed=(_NO_MESSAGE,)
        )
        if error_code(answer) is not None:
            return None
        message = answer["message"]
        text = base64.b64decode(message.get("hdrs", "")).decode()
        headers = dict(line.split(": ", 1) for line in text.split("\r\n")[1:] if ": " in line)
        headers[_STORED] = message["time"]
        self._last_sequence = max(self._last_sequence, message["seq"])
        return Message(
            message["subject"].removeprefix(self._root),
            message["seq"],
            headers,
            base64.b64decode(message.get("data", "")),
        )

    async def page(self, subject: str, after: int) -> list[Message]:
        """Return messages of a subject or filter after a sequence, in order; empty if there are no more."""
        while True:
            messages, more = await self._direct(subject, after)
            if messages:
                self._last_sequence = max(self._last_sequence, messages[-1].sequence)
                return messages
            if more:
                continue
            if self._last_sequence <= after:
                return []
            message = await self._get({"seq": after + 1, "next_by_subj": self._root + subject})
            return [message] if message is not None else []

    async def _direct(self, subject: str, after: int) -> tuple[list[Message], bool]:
        """Return what one replica has, and whether it has more."""
        body = {"seq": after + 1, "next_by_subj": self._root + subject, "batch": PAGE_MESSAGES}
        content = json.dumps({**body, "max_bytes": PAGE_BYTES}).encode()
        patience = Patience(f"a read of {self.name}")
        while True:
            with suppress(ConnectionInterrupted):
                inbox = self._connection.new_inbox()
                answers = await self._connection.subscribe(inbox)
                try:
                    await self._connection.publish(f"$JS.API.DIRECT.GET.{self.name}", content, reply=inbox)
                    if (page := await self._collect(answers)) is not None:
                        return page
                finally:
                    with suppress(Exception):
                        await answers.unsubscribe()
            self._connection.check_open()
            await patience.pause()

    async def _collect(self, answers: Any) -> tuple[list[Message], bool] | None:
        """Return the messages of one direct get, or `None` if it broke off."""
        messages: list[Message] = []
        while True:
            try:
                answer = await answers.next_msg(timeout=TRY_SECONDS)
            except Exception:
                return None
            headers = answer.headers or {}
            match headers.get("Status"):
                case None:
                    name = headers["Nats-Subject"].removeprefix(self._root)
                    messages.append(Message(name, int(headers["Nats-Sequence"]), headers, answer.data))
                case "204":
                    return messages, int(headers.get("Nats-Num-Pending", "0")) > 0
                case "404":
                    return messages, False
                case _:
                    return None

    async def messages(self, subject: str, after: int = 0) -> AsyncGenerator[Message, None]:
        """Yield the messages of a subject or filter after a sequence, in order."""
        while page := await self.page(subject, after):
            for message in page:
                yield message
            after = page[-1].sequence

    async def follow(self, subject: str, after: int) -> AsyncGenerator[Message, None]:
        """Yield messages of a subject or filter after a sequence, and new ones, until the bucket closes."""
        try:
            event = asyncio.Event()
            async with self.news(subject, lambda _: event.set()):
                while True:
                    event.clear()
                    async for message in self.messages(subject, after):
                        yield message
                        after = message.sequence
                    with suppress(TimeoutError):
                        await asyncio.wait_for(event.wait(), NEWS_SECONDS)
        except BucketClosed:
            return

    @asynccontextmanager
    async def news(self, subject: str, on_news: Callable[[int], None]) -> AsyncGenerator[None, None]:
        """Call a function with the sequence of each message of a subject or filter that is stored.

        News may be lost.
        """

        async def receive(message: Any) -> None:
            sequence = int(message.headers["Nats-Sequence"])
            self._last_sequence = max(self._last_sequence, sequence)
            on_news(sequence)

        dest = f"{self.name}-news.{self._root.removeprefix(self.name + '.')}{subject}"
        subscription = await self._connection.subscribe(dest, receive)
        await self._connection.flush()
        try:
            yield
        finally:
            with suppress(Exception):
                await subscription.unsubscribe()

    async def subjects(self, filter_: str) -> set[str]:
        """Return the subjects below a filter that have messages."""
        subjects: set[str] = set()
        while True:
            body = {"subjects_filter": self._root + filter_, "offset": len(subjects)}
            answer = await self._connection.api(f"STREAM.INFO.{self.name}", body)
            names = answer["state"].get("subjects") or {}
            subjects |= {name.removeprefix(self._root) for name in names}
            if not names or len(subjects) >= answer.get("total", 0):
                return subjects

    async def purge(self, subject: str, up_to: int | None = None) -> None:
        """Remove the messages of a subject or filter, all or those up to a sequence."""
        body: dict[str, object] = {"filter": self._root + subject}
        if up_to is not None:
            body["seq"] = up_to + 1
        await self._connection.api(f"STREAM.PURGE.{self.name}", body)
