"""The jobs Door: jobs of a project in its tables, and the requests by which guests add and remove them.

Its statements go through the Door `tables`. So in a fleet each node can claim jobs: the node that writes to
the tables executes them. Guests insert into a view, in any transaction. Its trigger checks the job and fills
in the rest. Two triggers count the rows, so that the limit costs no scan.
"""

import asyncio
import base64
import json
import re
import secrets
from collections.abc import Awaitable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from engine.door import (
    Caller,
    Door,
    DoorContext,
    DoorRequest,
    DoorResponse,
    DoorTables,
    ProblemKind,
    ReadsTables,
    Session,
    problem_response,
)
from engine.errors import SvcError
from engine.job_store import Ended, Job, JobState, StoredJob
from engine.stepwise_json import MAX_STEP, TooComplex, parse

MAX_JOBS = 100_000
"""Maximum jobs of a project, dead ones included."""
MAX_BODY = 1 << 20
MAX_PATH = 2048
MAX_NAME = 100
MAX_KEY = 255
"""Maximum bytes of a body, and characters of a path, of the name of a resource and of a key."""
MAX_DELAY_S = 366 * 86400
MAX_TRIES = 100
TRIES = 8
FULL = f"jobs-full: the project has {MAX_JOBS:,} jobs"
FULL_HINT = "Add more when some have run, or remove some: svc jobs remove --dead, or --waiting."
NOW = "CAST(unixepoch('subsec') * 1000 AS INTEGER)"
WAITING = "state = 'waiting'"
LIVE = "state <> 'dead'"
COUNT = "_svc_jobs_count"

# Of a text with NUL, `length` and GLOB see what is before it.
_CHECKS = {
    "id is not 16 hexadecimal digits": (
        "typeof(NEW.id) NOT IN ('text', 'null') OR octet_length(NEW.id) <> 16 OR NEW.id GLOB '*[^0-9a-f]*'"
    ),
    "path is not a text that begins with /": "typeof(NEW.path) <> 'text' OR substr(NEW.path, 1, 1) <> '/'",
    f"path has more than {MAX_PATH} characters, or characters that a URL cannot have": (
        f"octet_length(NEW.path) > {MAX_PATH} OR length(NEW.path) <> octet_length(NEW.path)"
        " OR NEW.path GLOB '*[^!\"$-~]*'"
    ),
    "resource is not the name of a resource": (
        f"typeof(NEW.resource) <> 'text' OR octet_length(NEW.resource) NOT BETWEEN 1 AND {MAX_NAME}"
        " OR length(NEW.resource) <> octet_length(NEW.resource) OR NEW.resource GLOB '*[^a-z0-9-]*'"
    ),
    "body is neither a text nor a blob": "typeof(NEW.body) NOT IN ('text', 'blob', 'null')",
    f"body has more than {MAX_BODY:,} bytes": f"octet_length(NEW.body) > {MAX_BODY}",
    f"delay_s is not a number from 0 to {MAX_DELAY_S:,}": (
        "typeof(NEW.delay_s) NOT IN ('integer', 'real', 'null')"
        f" OR NEW.delay_s NOT BETWEEN 0 AND {MAX_DELAY_S}"
    ),
    f"key is not a text of 1 to {MAX_KEY} characters": (
        f"typeof(NEW.key) NOT IN ('text', 'null') OR length(NEW.key) NOT BETWEEN 1 AND {MAX_KEY}"
        f" OR octet_length(NEW.key) > 4 * {MAX_KEY}"
    ),
    f"max_tries is not a whole number from 1 to {MAX_TRIES}": (
        f"typeof(NEW.max_tries) NOT IN ('integer', 'null') OR NEW.max_tries NOT BETWEEN 1 AND {MAX_TRIES}"
    ),
    # `INSERT OR REPLACE` would remove that one without the trigger that counts.
    "id is that of another job": "EXISTS (SELECT 1 FROM _svc_jobs WHERE id = NEW.id)",
}
_CASES = "\n".join(f"WHEN {check} THEN RAISE(ABORT, 'job: {text}')" for text, check in _CHECKS.items())

JOBS = DoorTables(
    prefix="_svc_jobs",
    inlet="_svc_jobs_add",
    create=(
        """CREATE TABLE _svc_jobs (
            n INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, resource TEXT NOT NULL, path TEXT NOT NULL,
            key TEXT, state TEXT NOT NULL DEFAULT 'waiting', added INTEGER NOT NULL, due INTEGER NOT NULL,
            tries INTEGER NOT NULL DEFAULT 0, max_tries INTEGER NOT NULL, owner TEXT NOT NULL DEFAULT '',
            request TEXT NOT NULL DEFAULT '', error TEXT NOT NULL DEFAULT '', body BLOB NOT NULL
        )""",
        f"CREATE INDEX _svc_jobs_due ON _svc_jobs (due) WHERE {LIVE}",
        "CREATE INDEX _svc_jobs_state ON _svc_jobs (state, due)",
        f"CREATE UNIQUE INDEX _svc_jobs_key ON _svc_jobs (key) WHERE {WAITING}",
        f"CREATE TABLE {COUNT} (one INTEGER PRIMARY KEY, n INTEGER NOT NULL)",
        f"INSERT INTO {COUNT} VALUES (1, 0)",
        f"""CREATE TRIGGER _svc_jobs_added AFTER INSERT ON _svc_jobs BEGIN
            UPDATE {COUNT} SET n = n + 1;
            SELECT RAISE(ABORT, '{FULL}. {FULL_HINT.rstrip(".")}') FROM {COUNT} WHERE n > {MAX_JOBS};
        END""",
        f"""CREATE TRIGGER _svc_jobs_removed AFTER DELETE ON _svc_jobs BEGIN
            UPDATE {COUNT} SET n = n - 1;
        END""",
        """CREATE VIEW _svc_jobs_add AS SELECT '' AS id, '' AS resource, '' AS path, NULL AS body,
            0 AS delay_s, NULL AS key, 0 AS max_tries""",
        f"""CREATE TRIGGER _svc_jobs_adding INSTEAD OF INSERT ON _svc_jobs_add BEGIN
            SELECT CASE {_CASES} END;
            INSERT INTO _svc_jobs (id, resource, path, key, added, due, max_tries, body)
            SELECT COALESCE(NEW.id, lower(hex(randomblob(8)))), NEW.resource, NEW.path, NEW.key, {NOW},
                {NOW} + CAST(COALESCE(NEW.delay_s, 0) * 1000 AS INTEGER), COALESCE(NEW.max_tries, {TRIES}),
                COALESCE(NEW.body, x'')
            WHERE NEW.key IS NULL
                OR NOT EXISTS (SELECT 1 FROM _svc_jobs WHERE key = NEW.key AND {WAITING});
        END""",
    ),
)
MEMBERS = ("resource", "path", "body", "delay_s", "key", "max_tries")
GUEST_ADD = f"INSERT INTO _svc_jobs_add ({', '.join(MEMBERS)}) VALUES ($1, $2, $3, $4, $5, $6)"
"""The statement of the guest libraries, into which `make docs` writes it."""
ADD = f"INSERT INTO _svc_jobs_add ({', '.join(MEMBERS)}, id) VALUES ($1, $2, $3, $4, $5, $6, $7)"
DEAD_MS = 7 * 86400 * 1000
"""How long dead jobs stay."""
MAX_DEAD = 10_000
"""Maximum dead jobs; the oldest are removed."""
PIECE = 200
"""Jobs that a transaction removes. The log has their bodies, and a limit for a transaction."""
INLINE_BYTES = 4096
"""Bodies up to this size are read with the claim."""
_TIME = "strftime('%Y-%m-%dT%H:%M:%SZ', {0} / 1000, 'unixepoch') AS {0}"
_COLUMNS = (
    f"id, resource, path, CAST(key AS BLOB) AS key, state, {_TIME.format('added')}, {_TIME.format('due')},"
    " tries, max_tries, request, error, octet_length(body) AS size, typeof(body) = 'text' AS text"
)
_BODY = "CAST(body AS BLOB) AS body"
_CLAIM = f"""UPDATE _svc_jobs SET state = 'running', tries = tries + 1, owner = $1, due = $2
    WHERE n IN (SELECT n FROM _svc_jobs WHERE {LIVE} AND owner <> $1 AND due <= {NOW} ORDER BY due LIMIT $3)
    RETURNING {_COLUMNS}, IIF(octet_length(body) <= {INLINE_BYTES}, CAST(body AS BLOB), NULL) AS body"""
_NEXT = f"SELECT min(due) AS due FROM _svc_jobs WHERE {LIVE} AND owner <> $1"
_LOOK = f"SELECT COALESCE(min(due), 0) FROM _svc_jobs WHERE {LIVE}"
_EXPIRE = f"""DELETE FROM _svc_jobs WHERE n IN (
    SELECT n FROM _svc_jobs WHERE state = 'dead' AND due < {NOW} - {DEAD_MS} ORDER BY due LIMIT 100)"""
_MINE = "WHERE id = $1 AND owner = $2 AND state = 'running'"
_MERGE = f"""DELETE FROM _svc_jobs {_MINE} AND EXISTS (
    SELECT 1 FROM _svc_jobs AS other WHERE other.key = _svc_jobs.key AND other.{WAITING})"""
"""A later job with its key waits, which does the same work."""
_AGAIN = f"UPDATE _svc_jobs SET state = 'waiting', owner = '', request = $3, error = $4, due = $5 {_MINE}"
_DIE = f"UPDATE _svc_jobs SET state = 'dead', owner = '', due = {NOW}, request = $3, error = $4 {_MINE}"
_OLDEST = f"""DELETE FROM _svc_jobs WHERE n IN (
    SELECT n FROM _svc_jobs WHERE state = 'dead' ORDER BY due DESC LIMIT 100 OFFSET {MAX_DEAD})"""
_NAMED = "id IN (SELECT value FROM json_each($1))"
_REMOVE = "DELETE FROM _svc_jobs WHERE n IN (SELECT n FROM _svc_jobs WHERE state = $1 LIMIT $2)"
Statement = tuple[str, Sequence[Any]]
_RETRY = f"UPDATE OR IGNORE _svc_jobs SET state = 'waiting', tries = 0, due = {NOW}, error = ''"
MAX_VALUES = 100
"""Maximum values in the document of a request."""
KINDS = {
    "bad-request": ProblemKind(400, "The document has the wrong form, or a member is not valid."),
    "not-found": ProblemKind(404, "The path does not exist."),
    "method-not-allowed": ProblemKind(405, "Only POST is allowed."),
    "jobs-full": ProblemKind(429, "The project has the maximum of jobs."),
}
_MEMBERS = frozenset({*MEMBERS, "base64"})
_SURROGATE = re.compile("[\ud800-\udfff]")
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

    def open(self, context: DoorContext) -> "ProjectJobs":
        return ProjectJobs(context)


class ProjectJobs:
    """The Door of one project, and its jobs. It implements `engine.door.OpenDoor`, and `JobStore`."""

    def __init__(self, context: DoorContext) -> None:
        tables = context.sibling("tables")
        assert isinstance(tables, ReadsTables)
        self._tables = tables
        self._project = context.project

    async def ask(self, statements: Sequence[Statement], by: DoorRequest | None = None) -> DoorResponse:
        """Run statements of a request, or of svc, in one transaction; return the response of the Door."""
        asked = [
            {"sql": sql, "params": [_param(each) for each in params], "values": "stored"}
            for sql, params in statements
        ]
        request = DoorRequest(
            "POST",
            "/v1/batch",
            body=json.dumps({"statements": asked}, ensure_ascii=False).encode("utf-8", "surrogatepass"),
            caller=by.caller if by is not None else Caller("", ""),
            session=by.session if by is not None else Session(),
            trusted=True,
        )
        answer = self._tables.answer(request)
        return await answer if isinstance(answer, Awaitable) else answer

    async def _run(self, *statements: Statement) -> list[dict[str, Any]]:
        """Run statements in one transaction, and return the result of each."""
        response = await self.ask(statements)
        document = json.loads(response.body)
        if response.status != HTTPStatus.OK:
            message = f"the jobs of {self._project} cannot be used: {document['detail']}"
            raise SvcError(message, document.get("hint", ""), code=document["code"])
        results: list[dict[str, Any]] = document["results"]
        return results

    async def _exist(self) -> bool:
        """Return whether the project has used jobs."""
        return await self._tables.glance(f"SELECT 1 FROM {COUNT}", fresh=True) is not None

    async def next_due(self) -> int | None:
        due: int | None = await self._tables.glance(_LOOK)
        return due or None

    async def claim(self, owner: str, *, until: int, count: int) -> tuple[Sequence[StoredJob], int | None]:
        claim = _CLAIM, (owner, until, count)
        claimed, following, _ = await self._run(claim, (_NEXT, (owner,)), (_EXPIRE, ()))
        return [_job(row) for row in claimed["rows"]], following["rows"][0]["due"]

    async def body(self, job: StoredJob) -> bytes | None:
        if job.body is not None:
            return job.body
        (found,) = await self._run((f"SELECT {_BODY} FROM _svc_jobs WHERE id = $1", (job.id,)))
        return _bytes(found["rows"][0]["body"]) if found["rows"] else None

    async def end(self, owner: str, ended: Ended) -> None:
        mine, log = (ended.id, owner), (ended.request, ended.error)
        if ended.done:
            await self._run((f"DELETE FROM _svc_jobs {_MINE}", mine))
        elif ended.due is not None:
            await self._run((_MERGE, mine), (_AGAIN, (*mine, *log, ended.due)))
        else:
            await self._run((_DIE, (*mine, *log)), (_OLDEST, ()))

    async def reclaim(self, node: str, owner: str, running: Sequence[str]) -> None:
        sql = f"""UPDATE _svc_jobs SET due = {NOW}, tries = tries - (owner = $3), owner = ''
            WHERE state = 'running' AND substr(owner, 1, $1) = $2
            AND (owner <> $3 OR id NOT IN (SELECT value FROM json_each($4)))"""
        await self._run((sql, (len(node) + 1, f"{node}.", owner, json.dumps(running))))

    async def list(
        self, *, state: JobState | None = None, after: str = "", limit: int
    ) -> tuple[Sequence[Job], dict[str, int]]:
        if not await self._exist():
            return [], {}
        sql = f"""SELECT {_COLUMNS} FROM _svc_jobs WHERE ($1 IS NULL OR state = $1)
            AND n > COALESCE((SELECT n FROM _svc_jobs WHERE id = $2), 0) ORDER BY n LIMIT $3"""
        counts = "SELECT state, count(*) AS count FROM _svc_jobs GROUP BY state"
        found, counted = await self._run((sql, (state, after, limit)), (counts, ()))
        return [_job(row) for row in found["rows"]], {row["state"]: row["count"] for row in counted["rows"]}

    async def find(self, id_: str) -> StoredJob:
        found = []
        if await self._exist():
            sql = f"SELECT {_COLUMNS}, {_BODY} FROM _svc_jobs WHERE id = $1"
            found = (await self._run((sql, (id_,))))[0]["rows"]
        if not found:
            raise SvcError(f"there is no job {id_}", "List them with `svc jobs list`.", code="not-found")
        return _job(found[0])

    async def retry(self, ids: Sequence[str] | None) -> int:
        if ids is None:
            return await self._change(f"{_RETRY} WHERE state = 'dead'")
        return await self._change(f"{_RETRY} WHERE state <> 'running' AND {_NAMED}", json.dumps(ids))

    async def remove(self, ids: Sequence[str] | None, state: JobState = "dead") -> int:
        if ids is not None:
            return await self._change(f"DELETE FROM _svc_jobs WHERE {_NAMED}", json.dumps(ids))
        removed, last = 0, PIECE
        while last == PIECE:
            last = await self._change(_REMOVE, state, PIECE)
            removed += last
        return removed

    async def _change(self, sql: str, *params: Any) -> int:
        """Run a statement if the project has used jobs, and return how many it changed."""
        if not await self._exist():
            return 0
        changes: int = (await self._run((sql, params)))[0]["changes"]
        return changes

    async def answer(self, request: DoorRequest) -> DoorResponse:
        operations = {"/v1/add": self._add, "/v1/remove": self._remove}
        try:
            if (operation := operations.get(request.path)) is None:
                available = f"Available: {', '.join(operations)}."
                raise _refused(f"{request.path} does not exist", available, "not-found")
            if request.method != "POST":
                message = f"{request.path} takes POST, not {request.method}"
                raise _refused(message, "", "method-not-allowed")
            return await operation(request)
        except SvcError as error:
            if request.call is not None:
                request.call.code = error.code
            members = {"hint": error.hint} if error.hint else {}
            members["request_id"] = request.caller.request_id
            return problem_response(KINDS[error.code].status, f"jobs:{error.code}", error.message, members)

    async def aclose(self) -> None:
        """Do nothing: the Door `tables` has the file."""

    async def _add(self, request: DoorRequest) -> DoorResponse:
        document = await _read(request, _MEMBERS)
        body: Any = document.get("body", b"")
        if "base64" in document:
            if "body" in document:
                raise _refused("the document has both body and base64", "Pass one of them.")
            try:
                body = base64.b64decode(document["base64"], validate=True)
            except (TypeError, ValueError):
                raise _refused("base64 is not base64", "Pass bytes in base64 with padding.") from None
        if not isinstance(body, str | bytes):
            raise _refused("body is not a text", "Pass a value as the text of its JSON.")
        if (size := len(body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body)) > MAX_BODY:
            detail = f"body has {size:,} bytes; the maximum is {MAX_BODY:,}"
            raise _refused(detail, "Store it in a table, and pass its key.")
        if request.call is not None:
            request.call.name = f"add {document.get('path')}"[:200]
        id_ = secrets.token_hex(8)
        job = {"resource": request.caller.resource, **document, "body": body}
        add = ADD, (*map(job.get, MEMBERS), id_)
        find = "SELECT id FROM _svc_jobs WHERE id = $1 OR (key = $2 AND state = 'waiting')"
        answer = await self.ask([add, (find, (id_, job.get("key")))], request)
        result = json.loads(answer.body)
        if answer.status != HTTPStatus.OK:
            detail = str(result["detail"])
            if detail.startswith(FULL):
                raise _refused(FULL.partition(": ")[2], FULL_HINT, "jobs-full")
            if detail.startswith("job: "):
                raise _refused(detail.removeprefix("job: "))
            return answer
        found = result["results"][1]["rows"][0]["id"]
        return DoorResponse(200, json.dumps({"id": found, "added": found == id_}).encode())

    async def _remove(self, request: DoorRequest) -> DoorResponse:
        document = await _read(request, frozenset({"id", "key"}))
        (name, value), *others = document.items() or [("id", None)]
        if others:
            raise _refused("the document has both id and key", "Pass one of them.")
        if not isinstance(value, str):
            raise _refused(f"{name} is not a text", 'Pass {"id": "…"}, or {"key": "…"}.')
        where = "id = $1" if name == "id" else "key = $1 AND state = 'waiting'"
        delete = f"DELETE FROM _svc_jobs WHERE {where}", (value,)
        answer = await self.ask([delete], request)
        if answer.status != HTTPStatus.OK:
            return answer
        removed = json.loads(answer.body)["results"][0]["changes"]
        return DoorResponse(200, json.dumps({"removed": bool(removed)}).encode())


def _job(row: dict[str, Any]) -> StoredJob:
    row["text"] = bool(row["text"])
    if row["key"] is not None:
        row["key"] = _bytes(row["key"]).decode(errors="replace")  # SQL can insert text that is not UTF-8.
    if row.get("body") is not None:
        row["body"] = _bytes(row["body"])
    return StoredJob(**row)


def _bytes(value: dict[str, str]) -> bytes:
    return base64.b64decode(value["base64"])


def _param(value: Any) -> Any:
    return {"base64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def _refused(message: str, hint: str = _FORM, code: str = "bad-request") -> SvcError:
    return SvcError(message, hint, code=code)


async def _read(request: DoorRequest, members: frozenset[str]) -> Mapping[str, Any]:
    """Return the members of a document, of simple types. The trigger of the table checks their values."""
    try:
        text = str(request.body, "utf-8")
        many = len(text) > MAX_STEP
        document = await asyncio.to_thread(parse, text, MAX_VALUES) if many else json.loads(text)
    except (ValueError, RecursionError, TooComplex) as error:
        raise _refused(f"the document is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise _refused("the document is not an object")
    if unknown := sorted(document.keys() - members):
        raise _refused(f"there is no member {unknown[0]}", f"Available: {', '.join(sorted(members))}.")
    for name, value in document.items():
        if isinstance(value, dict | list):
            raise _refused(f"{name} is an object or an array")
        if isinstance(value, str) and _SURROGATE.search(value):
            raise _refused(f"{name} has half of a surrogate pair")
        if isinstance(value, int | float) and not -(1 << 63) <= value < 1 << 63:
            raise _refused(f"{name} is not a number of 64 bits")
    return document
