"""`svc schedule`: the schedules of the project."""

from typing import Annotated, Any

from rich.text import Text

from engine.errors import InvalidUsage
from svc_tui.client import Client
from svc_tui.commands.options import Commands, argument
from svc_tui.deploy.format import local_time
from svc_tui.logs import ServiceOption, open_project
from svc_tui.terminal.stdout import Answer
from svc_tui.terminal.units import duration

schedule = Commands(help="Show, run, pause and resume the schedules of the project.")
SchedulePath = Annotated[
    str, argument("PATH", "Path of the schedule, or RESOURCE:PATH for one of several resources.")
]
_TONES = {"succeeded": "green", "failed": "red", "interrupted": "yellow"}


@schedule.command("list")
def list_schedules(service: ServiceOption = None) -> Answer:
    """List the schedules with their last results and next times."""
    with open_project(service) as (client, project):
        listed = client.call("GET", f"/v1/projects/{project}/schedules")
    note = (
        "" if listed["active"] else "they run at their times while `svc serve` or `svc dev --schedules` runs"
    )
    if not listed["schedules"]:
        note = f'{project} has no schedules; add some: schedules = {{ "/nightly" = "0 3 * * *" }}'
    return Answer(listed, map(_line, listed["schedules"]), before=note)


@schedule.command()
def run(path: SchedulePath, service: ServiceOption = None) -> Answer:
    """Run a schedule now, and wait for its end."""
    with open_project(service) as (client, project):
        result = client.call("POST", f"/v1/projects/{project}/schedules/run", _found(client, project, path))
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
    with open_project(service) as (client, project):
        found = _found(client, project, path)
        listed = client.call("PUT", f"/v1/projects/{project}/schedules/paused", found | {"paused": paused})
    changed = next(each for each in listed["schedules"] if found.items() <= each.items())
    return Answer(changed, [_line(changed)])


def _found(client: Client, project: str, path: str) -> dict[str, str]:
    """Return the resource and the path of a schedule. Raises `InvalidUsage`."""
    resource, _, rest = path.rpartition(":") if not path.startswith("/") else ("", "", path)
    schedules = client.call("GET", f"/v1/projects/{project}/schedules")["schedules"]
    found = [each for each in schedules if each["path"] == rest and resource in ("", each["resource"])]
    if len(found) == 1:
        return {"resource": found[0]["resource"], "path": rest}
    names = ", ".join(f"{each['resource']}:{each['path']}" for each in found or schedules)
    if found:
        raise InvalidUsage(f"several resources have a schedule {rest}", f"Pass one of {names}.")
    hint = f"Available: {names}." if names else "Add schedules to a resource in svc.toml, and deploy."
    raise InvalidUsage(f"{project} has no schedule {path}", hint)


def _line(each: dict[str, Any]) -> Text:
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
    return [(text, _TONES[result["state"]])]
