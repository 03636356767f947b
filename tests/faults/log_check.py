"""Check of the log of tables: its messages prove that each was appended after the one before."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from doors.tables.replication.entry import Assembler, Entry, chain_of
from engine.fleet.bucket import BATCH, EXPECTED, JetStream, StreamKeyValue, token
from engine.fleet.connection import NatsConnection
from engine.fleet.tables_log import RECORDS, STREAM
from engine.replication import LogMessage


@dataclass(frozen=True, slots=True)
class LogReport:
    """The number of entries, and a line for each that a correct log cannot have."""

    entries: int = 0
    flagged: Sequence[str] = ()


async def check_log(connection: NatsConnection, namespace: str, project: str) -> LogReport:
    """Read the log of a project. Raises `BucketError`."""
    entries, flagged = 0, list[str]()
    assembler, batches = Assembler(), set[str]()
    last, chain, batch, writer = 0, "", "", ""
    async for message in JetStream(connection, STREAM, namespace).messages(token(project)):
        headers = message.headers
        if headers[BATCH] != batch:
            batch = headers[BATCH]
            expected = int(headers.get(EXPECTED, "0"))
            # The first entry of a log that was trimmed follows one that is not there.
            if last and expected > last and expected <= await _trimmed(connection, namespace, project):
                entries, writer = 0, ""
                assembler.restart(last)  # The rest of the entry before was trimmed too.
            elif last and expected != last:
                flagged.append(f"{message.sequence} follows {last} and expected {headers.get(EXPECTED)}")
            if batch in batches:
                flagged.append(f"{message.sequence} repeats the batch {batch}")
            batches.add(batch)
        last = message.sequence
        content = assembler.add(LogMessage(message.sequence, message.content))
        if content is not None:
            entry = Entry.decode(content)
            if entries and entry.previous != chain:
                flagged.append(f"{message.sequence} by {entry.node} does not continue the entry before")
            if entry.kind == "rows" and writer and entry.node != writer:
                flagged.append(f"{message.sequence} by {entry.node} was written with the lease of {writer}")
            writer = writer if entry.lease is None else entry.lease.partition(".")[0]
            entries, chain = entries + 1, chain_of(content)
    return LogReport(entries, flagged)


async def _trimmed(connection: NatsConnection, namespace: str, project: str) -> int:
    """Return the sequence up to which the log was trimmed, maybe while it is read."""
    records = StreamKeyValue(JetStream(connection, RECORDS, f"{namespace}.snapshots"))
    value = await records.get(project)
    return int(json.loads(value.value)["trimmed"]) if value is not None else 0
