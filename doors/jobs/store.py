"""The jobs of one project: SQL of svc itself, through the Door `tables`.

So in a fleet each node can claim jobs: the node that writes to the tables executes its statements.
"""

import base64
import json
from collections.abc import Awaitable, Sequence
from typing import Any

from doors.jobs.schema import COUNT, LIVE, NOW, WAITING
from engine.door import Caller, DoorContext, DoorRequest, DoorResponse, ReadsTables, Session
from engine.errors import SvcError
from engine.job_store import Ended, Job, JobState

DEAD_MS = 7 * 86400 * 1000
"""How long dead jobs stay."""
MAX_DEAD = 10_000
"""Maximum dead jobs; the oldest are removed."""
PIECE = 200
"""Jobs that a transaction removes. The log has their bodies, and a limit for a transaction."""
INLINE_BYTES = 4096
"""Bodies up to this size are read with the claim."""
_COLUMNS = (
    "id, resource, path, CAST(key AS BLOB) AS key, state, added, due, tries, max_tries, request, error,"
    " octet_length(body) AS size, typeof(body) = 'text' AS text"
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
_AGAIN = f"UPDATE _svc_jobs SET state = 'waiting', owner = '', due = $3, request = $4, error = $5 {_MINE}"
_DIE = f"UPDATE _svc_jobs SET state = 'dead', owner = '', due = {NOW}, request = $3, error = $4 {_MINE}"
_OLDEST = f"""DELETE FROM _svc_jobs WHERE n IN (
    SELECT n FROM _svc_jobs WHERE state = 'dead' ORDER BY due DESC LIMIT 100 OFFSET {MAX_DEAD})"""
_NAMED = "id IN (SELECT value FROM json_each($1))"
_REMOVE = "DELETE FROM _svc_jobs WHERE n IN (SELECT n FROM _svc_jobs WHERE state = $1 LIMIT $2)"
_RETRY = f"UPDATE OR IGNORE _svc_jobs SET state = 'waiting', tries = 0, due = {NOW}, error = ''"


_SVC = Caller("", "")


class ProjectJobs:
    """The jobs of one project. It implements `engine.job_store.JobStore`."""

    def __init__(self, context: DoorContext) -> None:
        """Find the Door `tables` of the project."""
        self._tables = context.sibling("tables")
        self._project = context.project

    async def ask(
        self,
        statements: Sequence[tuple[str, Sequence[Any]]],
        caller: Caller = _SVC,
        session: Session | None = None,
    ) -> DoorResponse:
        """Run statements in one transaction, and return the response of the Door."""
        document = {
            "statements": [
                {"sql": sql, "params": [_param(each) for each in params], "values": "stored"}
                for sql, params in statements
            ]
        }
        request = DoorRequest(
            "POST",
            "/v1/batch",
            query="",
            headers=(),
            body=json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass"),
            caller=caller,
            session=session or Session(),
            trusted=True,
        )
        answer = self._tables.answer(request)
        return await answer if isinstance(answer, Awaitable) else answer

    async def _run(self, *statements: tuple[str, Sequence[Any]]) -> list[dict[str, Any]]:
        """Run statements in one transaction, and return the result of each. Raises `SvcError`."""
        response = await self.ask(statements)
        document = json.loads(response.body)
        if response.status != 200:
            raise SvcError(
                f"the jobs of {self._project} cannot be used: {document['detail']}",
                document.get("hint", ""),
                code=document["code"],
            )
        results: list[dict[str, Any]] = document["results"]
        return results

    async def _glance(self, sql: str, *, fresh: bool = False) -> Any:
        """Return the first value of a query on a file that stays closed; None without the table."""
        assert isinstance(self._tables, ReadsTables)
        return await self._tables.glance(sql, fresh=fresh)

    async def _exist(self) -> bool:
        """Return whether the project has used jobs."""
        return await self._glance(f"SELECT 1 FROM {COUNT}", fresh=True) is not None

    async def next_due(self) -> int | None:
        due: int | None = await self._glance(_LOOK)
        return due or None

    async def claim(self, owner: str, *, until: int, count: int) -> tuple[Sequence[Job], int | None]:
        claimed, following, _ = await self._run(
            (_CLAIM, (owner, until, count)), (_NEXT, (owner,)), (_EXPIRE, ())
        )
        return [_job(row) for row in claimed["rows"]], following["rows"][0]["due"]

    async def body(self, job: Job) -> bytes | None:
        if job.body is not None:
            return job.body
        (found,) = await self._run((f"SELECT {_BODY} FROM _svc_jobs WHERE id = $1", (job.id,)))
        return _bytes(found["rows"][0]["body"]) if found["rows"] else None

    async def end(self, owner: str, ended: Sequence[Ended]) -> None:
        statements: list[tuple[str, Sequence[Any]]] = []
        for each in ended:
            if each.done:
                statements.append((f"DELETE FROM _svc_jobs {_MINE}", (each.id, owner)))
            elif each.due is not None:
                statements.append((_MERGE, (each.id, owner)))
                statements.append((_AGAIN, (each.id, owner, each.due, each.request, each.error)))
            else:
                statements.append((_DIE, (each.id, owner, each.request, each.error)))
                statements.append((_OLDEST, ()))
        await self._run(*statements)

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

    async def find(self, id_: str) -> Job:
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


def _job(row: dict[str, Any]) -> Job:
    row["text"] = bool(row["text"])
    if row["key"] is not None:
        row["key"] = _bytes(row["key"]).decode(errors="replace")  # SQL can insert text that is not UTF-8.
    if row.get("body") is not None:
        row["body"] = _bytes(row["body"])
    return Job(**row)


def _bytes(value: dict[str, str]) -> bytes:
    return base64.b64decode(value["base64"])


def _param(value: Any) -> Any:
    return {"base64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value
