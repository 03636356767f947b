"""`svc jobs` and `svc schedule`: the jobs and the schedules of the project."""

from typing import Annotated, Any

from rich.text import Text

from engine.errors import InvalidUsage
from engine.job_store import JobState
from svc_tui.client import Client
from svc_tui.commands.options import Commands, argument, flag, option
from svc_tui.deploy.format import local_time
from svc_tui.logs import ServiceOption, open_project
from svc_tui.terminal import stderr
from svc_tui.terminal.stdout import Answer
from svc_tui.terminal.units import duration, plural

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
    with open_project(service) as (client, project):
        listed = client.get("jobs", after=after, limit=limit, state=state)
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
    with open_project(service) as (client, _):
        job = client.get(f"jobs/{id}")
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
    with open_project(service) as (client, _):
        changed = client.call("POST", f"jobs/{action}", asked)
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


schedule = Commands(help="Show, run, pause and resume the schedules of the project.")
SchedulePath = Annotated[
    str, argument("PATH", "Path of the schedule, or RESOURCE:PATH for one of several resources.")
]
_RESULT_TONES = {"succeeded": "green", "failed": "red", "interrupted": "yellow"}


@schedule.command("list")
def list_schedules(service: ServiceOption = None) -> Answer:
    """List the schedules with their last results and next times."""
    with open_project(service) as (client, project):
        listed = client.get("schedules")
    note = (
        "" if listed["active"] else "they run at their times while `svc serve` or `svc dev --schedules` runs"
    )
    if not listed["schedules"]:
        note = f'{project} has no schedules; add some: schedules = {{ "/nightly" = "0 3 * * *" }}'
    return Answer(listed, map(_schedule_line, listed["schedules"]), before=note)


@schedule.command()
def run(path: SchedulePath, service: ServiceOption = None) -> Answer:
    """Run a schedule now, and wait for its end."""
    with open_project(service) as (client, _):
        result = client.call("POST", "schedules/run", _found(client, path))
    line = Text.assemble(*_result(result), (f"  {result['request']}", "dim"))
    note, code = f"its log: svc logs --request {result['request']}", int(result["state"] != "succeeded")
    return Answer(result, [line], after=note, code=code)


@schedule.command()
def pause(path: SchedulePath, service: ServiceOption = None) -> Answer:
    """Pause a schedule until it is resumed."""
    return _pause(path, service, paused=True)


@schedule.command()
def resume(path: SchedulePath, service: ServiceOption = None) -> Answer:
    """Resume a schedule. Times during the pause are not caught up."""
    return _pause(path, service, paused=False)


def _pause(path: str, service: bool | None, *, paused: bool) -> Answer:
    with open_project(service) as (client, _):
        found = _found(client, path)
        listed = client.call("PUT", "schedules/paused", found | {"paused": paused})
    changed = next(each for each in listed["schedules"] if found.items() <= each.items())
    return Answer(changed, [_schedule_line(changed)])


def _found(client: Client, path: str) -> dict[str, str]:
    """Return the resource and the path of a schedule. Raises `InvalidUsage`."""
    resource, _, rest = path.rpartition(":") if not path.startswith("/") else ("", "", path)
    schedules = client.get("schedules")["schedules"]
    found = [each for each in schedules if each["path"] == rest and resource in ("", each["resource"])]
    if len(found) == 1:
        return {"resource": found[0]["resource"], "path": rest}
    names = ", ".join(f"{each['resource']}:{each['path']}" for each in found or schedules)
    if found:
        raise InvalidUsage(f"several resources have a schedule {rest}", f"Pass one of {names}.")
    hint = f"Available: {names}." if names else "Add schedules to a resource in svc.toml, and deploy."
    raise InvalidUsage(f"{client.project} has no schedule {path}", hint)


def _schedule_line(each: dict[str, Any]) -> Text:
    local = each["timezone"] != "UTC" and not each["at"].lower().startswith("every")
    coming = "paused" if each["paused"] else f"next {local_time(each['next'])}" if each["next"] else "never"
    pieces: list[Any] = [
        (f"{each['resource']}:{each['path']}", "bold"),
        (f"  {each['at']}{' ' + each['timezone'] if local else ''}", "cyan"),
        (f"  {coming}", "yellow" if each["paused"] else ""),
    ]
    if each["running"]:
        pieces.append(("  running", "cyan"))
    if each["last"] is not None:
        pieces += ["  last ", *_result(each["last"]), (f" {local_time(each['last']['started'])}", "dim")]
    return Text.assemble(*pieces)


def _result(result: dict[str, Any]) -> list[tuple[str, str]]:
    status = f" {result['status']}" if result["status"] is not None else ""
    text = f"{result['state']}{status}"
    if result["state"] != "interrupted":
        text += f" in {duration(int(result['seconds'] * 1e9))}"
    return [(text, _RESULT_TONES[result["state"]])]
