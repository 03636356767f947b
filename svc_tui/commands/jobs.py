"""`svc jobs`: the jobs of the project."""

from typing import Annotated, Any

from rich.text import Text

from engine.errors import InvalidUsage
from engine.job_store import JobState
from svc_tui.commands.options import Commands, argument, flag, option
from svc_tui.deploy.format import local_time
from svc_tui.logs import ServiceOption, open_project
from svc_tui.terminal import stderr
from svc_tui.terminal.stdout import Answer
from svc_tui.terminal.units import plural

jobs = Commands(help="Show, retry and remove the jobs of the project.")
AnyJobIds = Annotated[list[str] | None, argument("ID", "Ids of jobs, as `svc jobs list` prints them.")]
Dead = Annotated[bool, flag("All dead jobs.", "--dead")]
_TONES = {"waiting": "cyan", "running": "green", "dead": "red"}


@jobs.command("list")
def list_jobs(
    state: Annotated[
        JobState | None, option("STATE", "Only jobs in this state: waiting, running or dead.", "--state")
    ] = None,
    after: Annotated[str, option("ID", "Only jobs that were added after this one.", "--after")] = "",
    limit: Annotated[int, option("N", "Maximum number of jobs.", "--limit", "-n", min=1, max=1000)] = 100,
    service: ServiceOption = None,
) -> Answer:
    """List jobs, the oldest first."""
    asked = {"after": after, "limit": limit} | ({"state": state} if state else {})
    with open_project(service) as (client, project):
        listed = client.call("GET", f"/v1/projects/{project}/jobs", params=asked)
    counts = ", ".join(f"{listed[name]:,} {name}" for name in _TONES)
    note = counts if any(listed[name] for name in _TONES) else f"{project} has no jobs"
    if len(listed["jobs"]) == limit:
        note += f"\nthe next ones: svc jobs list --after {listed['jobs'][-1]['id']}"
    return Answer(listed, map(_line, listed["jobs"]), after=note)


@jobs.command()
def show(
    id: Annotated[str, argument("ID", "Id of a job, as `svc jobs list` prints it.")],
    service: ServiceOption = None,
) -> Answer:
    """Show a job with its body."""
    with open_project(service) as (client, project):
        job = client.call("GET", f"/v1/projects/{project}/jobs/{id}")
    log = [f"log: svc logs --request {job['request']}"] if job["request"] else []
    body = [job["body"] if job["body"] is not None else f"base64 {job['base64']}"] if job["size"] else []
    return Answer(job, [_line(job), *log, *body])


@jobs.command()
def retry(ids: AnyJobIds = None, dead: Dead = False, service: ServiceOption = None) -> Answer:
    """Run waiting or dead jobs now, with all their tries."""
    if bool(ids) == dead:
        raise InvalidUsage("pass ids of jobs or --dead", "For example: svc jobs retry --dead")
    return _change("retry", "run again", {"ids": ids or None}, service)


@jobs.command()
def remove(
    ids: AnyJobIds = None,
    dead: Dead = False,
    waiting: Annotated[bool, flag("All waiting jobs.", "--waiting")] = False,
    service: ServiceOption = None,
) -> Answer:
    """Remove jobs. A try that runs continues."""
    if bool(ids) + dead + waiting != 1:
        raise InvalidUsage("pass ids of jobs, --dead or --waiting", "For example: svc jobs remove --dead")
    asked = {"ids": ids or None, "state": "waiting" if waiting else "dead"}
    return _change("remove", "removed", asked, service)


def _change(action: str, done: str, asked: dict[str, Any], service: bool | None) -> Answer:
    with open_project(service) as (client, project):
        changed = client.call("POST", f"/v1/projects/{project}/jobs/{action}", asked)
    count, ids = changed["changed"], asked["ids"] or ()
    if count < len(ids):
        stderr.note(f"{plural(len(ids) - count, 'job')} not found: it has ended, or it runs now")
    return Answer(changed, [f"{plural(count, 'job')} {done}"])


def _line(job: dict[str, Any]) -> Text:
    due = {"waiting": "next try", "running": "claimed until", "dead": "since"}[job["state"]]
    pieces: list[Any] = [
        (job["id"], "dim"),
        (f"  {job['resource']}:{job['path']}", "bold"),
        (f"  {job['state']}", _TONES[job["state"]]),
        f"  {due} {local_time(job['due'])}  try {job['tries']} of {job['max_tries']}",
    ]
    if job["key"] is not None:
        pieces.append((f"  key {job['key']}", "cyan"))
    if job["error"]:
        pieces.append((f"  {job['error']}", "red"))
    return Text.assemble(*pieces)
