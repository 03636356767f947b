"""Login attempts of all nodes: each sends its own to the others, unstored."""

import asyncio
import json
import secrets
from dataclasses import asdict
from typing import Any

from engine.bucket.errors import BucketError
from engine.control.auth.login_throttle import LoginEvent, LoginThrottle
from engine.fleet.connection import NatsConnection


async def share_attempts(connection: NatsConnection, namespace: str, throttle: LoginThrottle) -> None:
    """Count the attempts of other nodes, and send them those of this one, until the connection closes."""
    subject, sender = f"svc-logins.{namespace}", secrets.token_hex(8)
    sending: set[asyncio.Task[None]] = set()

    async def receive(message: Any) -> None:
        document = json.loads(message.data)
        if document.pop("sender") != sender:
            throttle.apply(LoginEvent(**document))

    async def send(event: LoginEvent) -> None:
        try:
            await connection.publish(subject, json.dumps({**asdict(event), "sender": sender}).encode())
        except BucketError:  # Without the others, this node counts alone.
            return

    def announce(event: LoginEvent) -> None:
        task = asyncio.ensure_future(send(event))
        sending.add(task)
        task.add_done_callback(sending.discard)

    await connection.subscribe(subject, receive)
    throttle.announce = announce
