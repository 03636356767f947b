"""The jobs Door: it adds and removes jobs of the calling project."""

import asyncio
import base64
import binascii
import json
import secrets
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from doors.jobs.schema import ADD, FULL, FULL_HINT, MAX_BODY, MAX_KEY, MAX_NAME, MAX_PATH, MEMBERS
from doors.jobs.store import ProjectJobs
from engine.door import Door, DoorContext, DoorRequest, DoorResponse, ProblemKind, problem_response
from engine.stepwise_json import MAX_STEP, TooComplex, parse

MAX_VALUES = 100
"""Maximum values in the document of a request."""
KINDS = {
    "bad-request": ProblemKind(400, "The document has the wrong form, or a member is not valid."),
    "not-found": ProblemKind(404, "The path does not exist."),
    "method-not-allowed": ProblemKind(405, "Only POST is allowed."),
    "jobs-full": ProblemKind(429, "The project has the maximum of jobs."),
}
_MEMBERS = frozenset({*MEMBERS, "base64"})
_FORM = 'The document is {"path": "/resize", "body": "…", "delay_s": 60, "key": "…", "max_tries": 8}.'


class JobsDoor(Door):
    """The Door `jobs`."""

    name = "jobs"
    purpose = "requests that svc sends later, with retries"
    pages = ("guides/build/jobs.md",)
    unit = "job"
    variables = ("SVC_JOBS_ENDPOINT",)
    max_body = 7 * MAX_BODY
    """A body in JSON, each byte of which may be escaped."""
    problems = KINDS

    def open(self, context: DoorContext) -> "OpenJobs":
        """Open the Door for one project, whose Door `tables` is open."""
        return OpenJobs(context)


class _Problem(Exception):
    def __init__(self, code: str, detail: str, hint: str = "") -> None:
        super().__init__(detail)
        self.code, self.detail, self.hint = code, detail, hint


class OpenJobs(ProjectJobs):
    """The Door of one project, and its jobs. It implements `engine.door.OpenDoor`."""

    async def answer(self, request: DoorRequest) -> DoorResponse:
        try:
            match request.path:
                case "/v1/add":
                    return await self._add(request)
                case "/v1/remove":
                    return await self._remove(request)
            raise _Problem("not-found", f"{request.path} does not exist", "Available: /v1/add, /v1/remove.")
        except _Problem as problem:
            if request.call is not None:
                request.call.code = problem.code
            members = {"hint": problem.hint} if problem.hint else {}
            members["request_id"] = request.caller.request_id
            status = KINDS[problem.code].status
            return problem_response(status, f"jobs:{problem.code}", problem.detail, members)

    async def aclose(self) -> None:
        """Do nothing: the Door `tables` has the file."""

    async def _add(self, request: DoorRequest) -> DoorResponse:
        document = await _read(request, _MEMBERS)
        resource, key = document.get("resource", request.caller.resource), document.get("key")
        body: Any = document.get("body", b"")
        if "base64" in document:
            body = _decoded(document)
        _check("path", document.get("path"), MAX_PATH)
        _check("resource", resource, MAX_NAME)
        if key is not None:
            _check("key", key, MAX_KEY)
        if not isinstance(body, str | bytes):
            raise _Problem("bad-request", "body is not a text", "Pass a value as the text of its JSON.")
        if (size := len(body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body)) > MAX_BODY:
            detail = f"body has {size:,} bytes; the maximum is {MAX_BODY:,}"
            raise _Problem("bad-request", detail, "Store it in a table, and pass its key.")
        if request.call is not None:
            request.call.name = f"add {document['path']}"[:200]
        id_ = secrets.token_hex(8)
        delay, tries = document.get("delay_s"), document.get("max_tries")
        values = (resource, document["path"], body, delay, key, tries, id_)
        find = "SELECT id FROM _svc_jobs WHERE id = $1 OR (key = $2 AND state = 'waiting')"
        answer = await self.ask([(ADD, values), (find, (id_, key))], request.caller, request.session)
        result = json.loads(answer.body)
        if answer.status != HTTPStatus.OK:
            detail = str(result["detail"])
            if detail.startswith(FULL):
                raise _Problem("jobs-full", FULL.partition(": ")[2], FULL_HINT)
            if detail.startswith("job: "):
                raise _Problem("bad-request", detail.removeprefix("job: "), _FORM)
            return answer
        found = result["results"][1]["rows"][0]["id"]
        return DoorResponse(200, json.dumps({"id": found, "added": found == id_}).encode())

    async def _remove(self, request: DoorRequest) -> DoorResponse:
        document = await _read(request, frozenset({"id", "key"}))
        if len(document) != 1:
            raise _Problem("bad-request", "the document has neither an id nor a key", 'Pass {"id": "…"}.')
        (name, value) = next(iter(document.items()))
        _check(name, value, MAX_KEY)
        where = "id = $1" if name == "id" else "key = $1 AND state = 'waiting'"
        answer = await self.ask(
            [(f"DELETE FROM _svc_jobs WHERE {where}", (value,))], request.caller, request.session
        )
        if answer.status != HTTPStatus.OK:
            return answer
        removed = json.loads(answer.body)["results"][0]["changes"]
        return DoorResponse(200, json.dumps({"removed": bool(removed)}).encode())


async def _read(request: DoorRequest, members: frozenset[str]) -> Mapping[str, Any]:
    if request.method != "POST":
        raise _Problem("method-not-allowed", f"{request.path} takes POST, not {request.method}")
    try:
        text = str(request.body, "utf-8")
        if len(text) > MAX_STEP:
            document = await asyncio.to_thread(parse, text, MAX_VALUES)
        else:
            document = json.loads(text)
    except (ValueError, RecursionError, TooComplex) as error:
        raise _Problem("bad-request", f"the document is not JSON: {error}", _FORM) from error
    if not isinstance(document, dict):
        raise _Problem("bad-request", "the document is not an object", _FORM)
    if unknown := sorted(document.keys() - members):
        available = ", ".join(sorted(members))
        raise _Problem("bad-request", f"there is no member {unknown[0]}", f"Available: {available}.")
    return document


def _check(name: str, value: Any, most: int) -> None:
    if not isinstance(value, str) or not value:
        raise _Problem("bad-request", f"{name} is missing or not a text", _FORM)
    if len(value) > most:
        raise _Problem("bad-request", f"{name} has {len(value)} characters; the maximum is {most}")


def _decoded(document: Mapping[str, Any]) -> bytes:
    if "body" in document:
        raise _Problem("bad-request", "the document has both body and base64", "Pass one of them.")
    try:
        return base64.b64decode(document["base64"], validate=True)
    except (TypeError, ValueError, binascii.Error) as error:
        raise _Problem("bad-request", "base64 is not base64", "Pass bytes in base64 with padding.") from error
