"""Text of deploys and deployments: changes, addresses and times."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from rich.text import Text

from svc_tui.terminal.units import size

Step = Literal["build", "upload", "policy", "activate"]


@dataclass(frozen=True, slots=True)
class DeployProgress:
    """A progress event of a step of a deploy. A `transient` one is replaced by the next event."""

    step: Step
    text: str
    transient: bool = False


OnProgress = Callable[[DeployProgress], None]
"""Receives progress events on the thread of the deploy."""


def plan_lines(plan: dict[str, Any]) -> list[Text]:
    """Return the lines of a plan: changes, mounts that the deploy would undo, and new migrations."""
    undone = [Difference("!", mount.resource, mount.drift) for mount in plan["drift"]]
    lines = change_lines([*differences(plan["changes"]), *undone])
    for name in plan["migrations"]:
        lines.append(Text.assemble(("  + ", "green"), (name, "bold"), "  migration"))
    return lines


Mark = Literal["+", "-", "~", "!"]


@dataclass(frozen=True, slots=True)
class Difference:
    """A change of a resource: `+` added, `-` removed, `~` changed, `!` needs an option of the deploy."""

    mark: Mark
    resource: str
    text: str


_STYLES = {"!": "bold yellow", "+": "green", "-": "red", "~": "cyan"}


def change_lines(changes: Sequence[Difference]) -> list[Text]:
    """Return one line per change."""
    width = max((len(change.resource) for change in changes), default=0)
    lines = []
    for change in changes:
        mark, name = (f"  {change.mark} ", _STYLES[change.mark]), f"{change.resource:<{width}}  "
        lines.append(Text.assemble(mark, (name, "bold"), change.text))
    return lines


def differences(changes: Sequence[dict[str, Any]]) -> list[Difference]:
    """Return changes of the control API as text."""
    found = []
    for change in changes:
        field, before, after = change["field"], _short(change["before"]), _short(change["after"])
        mark: Mark = "-" if before else "+"
        text = f"{field}  {before or after}"
        if change["new_capability"]:
            mark, text = "!", f"now {'answers at' if field == 'domain' else 'imports'} {after}"
        elif before and after:
            mark, text = "~", f"{field}  {before} → {after}"
        found.append(Difference(mark, change["resource"] or "[project]", text))
    return found


def _short(value: str) -> str:
    """Return a value as text; an artifact becomes its short digest and its size."""
    digest, _, count = value.partition(" ")
    if not digest.startswith("sha256:"):
        return value
    return f"{digest[:19]}… ({size(int(count))})" if count else f"{digest[:19]}…"


def project_address(live: Mapping[str, Any]) -> dict[str, Any]:
    """Return the address of a project in the form of a resource's."""
    url = live["address"] or no_address(live["addresses"])
    return {"resource": live["deployment"]["project"], "lane": "", "url": url, "mounted": []}


def no_address(addresses: Sequence[dict[str, Any]]) -> str:
    """Return why a project has no address, and how it gets one."""
    public = [each["resource"] for each in addresses if each["url"]]
    if not public:
        return "no address: no resource is public"
    return f"no address: set front in [project] of svc.toml to {' or '.join(public)}"


def address_lines(addresses: Sequence[dict[str, Any]]) -> list[Text]:
    """Return one line per resource: its URL, or the mounts of a private one."""
    width = max((len(address["resource"]) for address in addresses), default=0)
    lines = []
    for address in addresses:
        name, place = (f"{address['resource']:<{width}}", "cyan"), location(address)
        lines.append(Text.assemble(name, f"  {address['lane']:<6}  {place}"))
    return lines


_DOMAIN_SIGNS = {"valid": ("● ", "green"), "waiting": ("◌ ", "yellow"), "failed": ("▲ ", "red")}


def domain_lines(project: str, listed: Mapping[str, Any]) -> list[Text]:
    """Return one line per custom domain with its resource and its state.

    A line about the certificate of the project's addresses follows if its service serves with TLS.
    """
    domains, certificate = listed["domains"], listed["certificate"]
    name, resource = (max((len(each[key]) for each in domains), default=0) for key in ("name", "resource"))
    lines = []
    for each in domains:
        state, text = domain_state(each)
        columns = (f"{each['name']:<{name}}", "bold"), (f"  {each['resource']:<{resource}}  ", "cyan")
        lines.append(Text.assemble(_DOMAIN_SIGNS[state], *columns, text))
    if certificate is not None:
        repeated = certificate["detail"] in [each["certificate"]["detail"] for each in domains]
        lines.append(certificate_line(project, certificate | ({"detail": ""} if repeated else {})))
    return lines


def domain_state(domain: Mapping[str, Any]) -> tuple[str, str]:
    """Return the state of a domain of the control API: valid, waiting or failed; and a text."""
    detail = f": {domain['detail']}" if domain["detail"] else ""
    if domain["state"] == "valid":
        state, text = certificate_state(domain["certificate"])
        return state, f"{text}; {domain['detail']}" if detail else text
    return domain["state"], {"waiting": "waiting for DNS", "failed": "failed"}[domain["state"]] + detail


def record_line(record: Mapping[str, str]) -> str:
    """Return a DNS record of the control API as a line."""
    return f"{record['type']:<5}  {record['name']}  {record['value']}"


def certificate_line(name: str, certificate: dict[str, Any]) -> Text:
    """Return a line about a certificate of the control API."""
    state, text = certificate_state(certificate)
    return Text.assemble(_DOMAIN_SIGNS[state], (name, "bold"), f"  {text}")


def service_lines(service: dict[str, Any]) -> list[Text]:
    """Return the lines of a service's own certificate."""
    renewal, retry = (service[key] and local_time(service[key]) for key in ("renews_at", "retries_at"))
    rows = ("names", ", ".join(service["names"])), ("renewal", renewal), ("next try", retry)
    lines = [Text(f"  {name:<8}  {text}") for name, text in rows if text]
    return [certificate_line(service["domain"], service["certificate"]), *lines]


def certificate_state(certificate: Mapping[str, Any] | None) -> tuple[str, str]:
    """Return the state of a certificate of the control API: valid, waiting or failed; and a text."""
    if certificate is None:
        return "valid", "valid"
    detail = f": {certificate['detail']}" if certificate["detail"] else ""
    if certificate["state"] == "ordered":
        return "waiting", "certificate ordered"
    if not certificate["until"]:
        return "failed", f"no certificate{detail}"
    until = f"certificate until {local_time(certificate['until'])[:10]}"
    if certificate["state"] == "failed":
        return "failed", f"{until}, but not for all names{detail}"
    return "valid", f"{until}; the last attempt failed{detail}" if detail else until


def location(address: Mapping[str, Any]) -> str:
    """Return the URL or the mounts of a resource, from its address in the control API."""
    mounts = ", ".join(address["mounted"])
    return address["url"] or (f"private, mounted at {mounts}" if mounts else "private, not mounted")


def rollback_text(activations: Sequence[Mapping[str, Any]], live: str) -> str:
    """Return time, user and reason of the rollback to the live deployment; empty if it was only deployed."""
    of_deployment = [activation for activation in activations if activation["deployment"] == live]
    if len(of_deployment) < 2:
        return ""
    latest = of_deployment[0]
    reason = f": {one_line(latest['message'])}" if latest["message"] else ""
    return f"rolled back {local_time(latest['at'])} by {latest['by']}{reason}"


def one_line(text: str) -> str:
    """Return user text on one line, so that it cannot imitate other lines of a list."""
    return " ".join(text.split())


def local_time(time: str) -> str:
    """Return a timestamp of the API in local time."""
    return datetime.fromisoformat(time).astimezone().strftime("%Y-%m-%d %H:%M:%S")
