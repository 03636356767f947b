"""A parsed request: its members, the work that answers it, and problem documents (RFC 9457) of guests."""

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from engine.door import DoorResponse, Headers, ProblemKind, problem_response
from engine.stepwise_json import MAX_STEP

HEADERS: Headers = (("content-type", b"application/problem+json"),)
KINDS = {
    "bad-request": ProblemKind(400, "The body has the wrong form."),
    "data-error": ProblemKind(400, "A key is invalid, or of another type."),
    "operation-error": ProblemKind(400, "The operation failed: wrong ciphertext or unfit parameters."),
    "not-supported": ProblemKind(400, "The algorithm, curve or hash is not available."),
    "not-found": ProblemKind(404, "The path does not exist."),
    "method-not-allowed": ProblemKind(405, "Only POST is allowed."),
    "too-large": ProblemKind(413, "The input exceeds its limit."),
    "too-expensive": ProblemKind(422, "A parameter exceeds its limit, or the run has too little time left."),
    "busy": ProblemKind(503, "Too much of the project's work is queued."),
}


class CryptoProblem(Exception):
    """A refused request. `code` is one of `KINDS`."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail

    def response(self) -> DoorResponse:
        return problem_response(KINDS[self.code].status, f"crypto:{self.code}", self.detail)


MAX_VALUES = 100
"""Maximum values in a request of more than 64 KiB. No operation has as many members."""
_SEPARATORS = (b",", b"[", b"{")
Choice = TypeVar("Choice")
Result = Mapping[str, Any]
"""Members of a response as JSON values; bytes become base64."""


@dataclass(frozen=True, slots=True)
class Job:
    """Work that is ready to run. `cpu_ns` is its estimated CPU time, `memory` the bytes that it allocates.

    `run` raises CryptoProblem.
    """

    run: Callable[[], Result]
    cpu_ns: int = 0
    memory: int = 0


class Members:
    """Typed access to the members of a request."""

    def __init__(self, body: bytes) -> None:
        """Parse the body. Raises CryptoProblem if it is not a JSON object."""
        # Many values would hold the interpreter's lock for long. Members are names and base64.
        if len(body) > MAX_STEP and sum(map(body.count, _SEPARATORS)) > MAX_VALUES:
            raise CryptoProblem("too-large", f"the body has more than {MAX_VALUES} values")
        try:
            values = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise CryptoProblem("bad-request", "the body is not JSON") from error
        if type(values) is not dict:
            raise CryptoProblem("bad-request", "the body is not a JSON object")
        self._values: dict[str, Any] = values

    def text(self, name: str) -> str:
        """Return a string. Raises CryptoProblem for other types."""
        value = self._values.get(name)
        if type(value) is not str:
            raise CryptoProblem("bad-request", f"{name} is missing or not a string")
        return value

    def choice(self, name: str, choices: Mapping[str, Choice]) -> Choice:
        """Return the choice that a string names. Raises CryptoProblem if none has that name."""
        text = self.text(name)
        if text not in choices:
            names = f"is not one of {', '.join(choices)}"
            raise CryptoProblem(
                "not-supported",
                f"{text} {names}" if name == "algorithm" else f"the {name} {text} is not available",
            )
        return choices[text]

    def number(self, name: str, default: int | None = None) -> int:
        """Return an integer from 0 to 2^53. Raises CryptoProblem for other types."""
        value = self._values.get(name, default)
        if type(value) is not int or not 0 <= value <= 1 << 53:
            raise CryptoProblem("bad-request", f"{name} is missing or not a number")
        return value

    def data(self, name: str, default: bytes | None = None) -> bytes:
        """Return bytes, from base64. Raises CryptoProblem for other types."""
        value = self._values.get(name)
        if value is None and default is not None:
            return default
        if type(value) is not str:
            raise CryptoProblem("bad-request", f"{name} is missing or not base64")
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError) as error:
            raise CryptoProblem("bad-request", f"{name} is not base64") from error

    def mapping(self, name: str) -> Mapping[str, Any]:
        """Return a JSON object. Raises CryptoProblem for other types."""
        value = self._values.get(name)
        if type(value) is not dict:
            raise CryptoProblem("bad-request", f"{name} is missing or not an object")
        return value


def encode(result: Result) -> bytes:
    return json.dumps(result, separators=(",", ":"), default=_base64).encode()


def _base64(value: object) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(f"{type(value).__name__} is not part of a result")
