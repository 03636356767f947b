"""An open crypto Door, requests to it, and encodings of what they contain."""

import base64
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from doors.crypto.door import CryptoDoor
from engine.door import Caller, DoorContext, DoorRequest, DoorResponse, OpenDoor, RunBudget

CALLER = Caller("api", "request-1")
Post = Callable[..., tuple[int, dict[str, Any]]]
Data = Callable[..., str]
KEY, BLOCK = bytes(16), bytes(16)


@dataclass
class Budget:
    """A run with `seconds` left."""

    seconds: float = 30
    memory_limit: int = 128 << 20
    door_cpu_ns: int = 0

    def __post_init__(self) -> None:
        self.deadline_ns = time.monotonic_ns() + int(self.seconds * 1e9)


def request(path: str, members: Any, budget: RunBudget | None = None, method: str = "POST") -> DoorRequest:
    body = members if isinstance(members, bytes) else json.dumps(members, default=encoded).encode()
    return DoorRequest(
        method, f"/v1/{path}", query="", headers=(), body=body, caller=CALLER, budget=budget or Budget()
    )


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def opened(project: str = "shop", door: CryptoDoor | None = None) -> OpenDoor:
    return (door or CryptoDoor()).open(DoorContext(project, Path("unused"), lambda entry: None))


async def answered(door: OpenDoor, each: DoorRequest) -> DoorResponse:
    answer = door.answer(each)
    return answer if isinstance(answer, DoorResponse) else await answer


async def answered_once(each: DoorRequest) -> DoorResponse:
    """The answer of a new Door, which is closed."""
    door = opened()
    try:
        return await answered(door, each)
    finally:
        await door.aclose()


def raw(text: str) -> bytes:
    return bytes.fromhex(text)


def url(data: bytes | int) -> str:
    if isinstance(data, int):
        data = data.to_bytes((data.bit_length() + 7) // 8, "big")
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def unpadded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "==")
