"""The project on its service: `svc deployments`, `rollback`, `open`, `secret` and `domain`."""

import sys
import webbrowser
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

from rich.text import Text

from engine.dev.env_file import ENV_FILE, read_env
from engine.errors import InvalidUsage, SvcError
from engine.manifest import MANIFEST
from engine.manifest.egress import parse_domain
from svc_tui.client.credentials import call_service, current_project, project_service
from svc_tui.commands.options import AsJson, Commands, Yes, argument, flag, option, resource_names
from svc_tui.deploy.format import (
    address_lines,
    change_lines,
    differences,
    domain_lines,
    domain_state,
    local_time,
    one_line,
    project_address,
    record_line,
    rollback_text,
    service_lines,
)
from svc_tui.terminal import prompt, stderr
from svc_tui.terminal.stdout import Answer

MAX_SHOWN = 20


def deployments() -> Answer:
    """List the deployments of the project in this folder, newest first."""
    with project_service() as (client, project):
        history = client.get("deployments")
    address = Text.assemble((project.name, "cyan"), f"  {history['address']}")
    lines: list[Text | str] = [address] if history["address"] else []
    for deployment in history["deployments"][:MAX_SHOWN]:
        live = deployment["live"]
        line = Text.assemble(
            ("● " if live else "  ", "green"),
            (deployment["id"], "bold" if live else ""),
            (f"  {local_time(deployment['created'])}", "dim"),
            (f"  {deployment['by']}", "cyan"),
            (f"  {one_line(deployment['commit'])}" if deployment["commit"] else "", "dim"),
            f"  {one_line(deployment['message'])}" if deployment["message"] else "",
        )
        lines.append(line)
        if live and (text := rollback_text(history["activations"], deployment["id"])):
            lines.append(f"    {text}")
    empty = f"{project.name} has no deployments; create one with `svc deploy`"
    return Answer(history, lines, empty=empty)


def rollback(
    deployment: Annotated[
        str, argument("ID", "Deployment to activate (default: the one that was live before).")
    ] = "",
    message: Annotated[str, option("REASON", "Reason of the rollback.", "--message", "-m")] = "",
    yes: Yes = False,
) -> Answer:
    """Roll back to an earlier deployment. Rows and schema of tables are not rolled back."""
    with project_service() as (client, project):
        if not (target := deployment):
            activations = client.get("deployments")["activations"]
            ids = [activation["deployment"] for activation in activations]
            target = next((each for each in ids if each != ids[0]), "")
        if not target:
            hint = "Run `svc deployments` to list the deployments, and pass an ID."
            raise SvcError(f"{project.name} has no earlier deployment to roll back to", hint)
        plan = client.get(f"deployments/{quote(target, safe='')}/rollback")
        for line in change_lines(differences(plan["changes"])):
            stderr.line(line)
        if target == plan["live"]:
            raise SvcError(f"{target} is already live", "Run `svc deployments` to list the others.")
        if not plan["changes"]:
            stderr.note(f"{target} has the same content as the live deployment")
        stderr.note("rows and schema of tables are not rolled back")
        newer = " (the newer one)" if target > plan["live"] else ""
        prompt.confirm(f"roll back from {plan['live']} to {target}{newer}?", yes=yes)
        body = {"deployment": target, "revision": plan["revision"], "message": message}
        result = client.call("POST", "rollback", body)
    return live_answer(result)


def live_answer(live: dict[str, Any]) -> Answer:
    """Return the live deployment and its addresses."""
    lines = address_lines([project_address(live), *live["addresses"]])
    return Answer(live, lines, before=f"live: {live['deployment']['id']}")


def open_resource(
    resource: Annotated[
        str,
        argument(
            "RESOURCE", "A public resource (default: the project's front).", autocompletion=resource_names
        ),
    ] = "",
    show: Annotated[bool, flag("Print the URL without opening it.", "--print")] = False,
    as_json: AsJson = False,
) -> None:
    """Open a deployed resource in the browser."""
    with project_service() as (client, project):
        state = client.call("GET", f"/v1/projects/{project.name}")
    urls = {address["resource"]: address["url"] for address in state["addresses"] if address["url"]}
    url = urls.get(resource) if resource else state["address"]
    if url is None:
        message = f"{resource} is not a live public resource" if resource else f"{project.name} has no front"
        hint = f"Pass a resource: {', '.join(urls)}." if urls else "Deploy a public one."
        raise InvalidUsage(message, hint)
    Answer({"resource": resource or None, "url": url}, [url]).write(as_json=as_json)
    if not show:
        webbrowser.open(url)


MAX_BYTES = 64 << 10
secret = Commands(help="Manage the secrets of the project.")


Name = Annotated[str, argument("NAME", "Name of the environment variable.")]


@secret.command("set")
def set_secret(name: Name) -> None:
    """Set a secret. Prompts for the value without echo, or reads it from piped stdin."""
    with project_service() as (client, _):
        value = prompt.secret(f"value of {name}", "Pipe the value.") if sys.stdin.isatty() else _piped()
        client.call("PUT", _path(name), {"value": value})
    if not value:
        stderr.warn(f"the value of {name} is empty", f"Pipe the value: echo VALUE | svc secret set {name}")
    stderr.note(f"set {name}; the next request uses the new value")


def _path(name: str) -> str:
    return f"secrets/{quote(name, safe='')}"


def _piped() -> str:
    data = sys.stdin.buffer.read(MAX_BYTES + 1)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        hint = "Encode binary values, for example as base64."
        raise SvcError("the value is not valid UTF-8", hint) from error
    _check_size("the value", data)
    return text.removesuffix("\n")


def _check_size(subject: str, value: bytes) -> None:
    if len(value) > MAX_BYTES:
        hint = "Store large values in a table and only a key here."
        raise SvcError(f"{subject} is larger than {MAX_BYTES >> 10} KiB", hint)


@secret.command("push")
def push_secrets(
    file: Annotated[Path, argument("FILE", "File with lines NAME=value.")] = Path(ENV_FILE), yes: Yes = False
) -> None:
    """Set the declared secrets that a file such as .env has values for."""
    values = read_env(file)
    with project_service() as (client, project):
        names = sorted(project.secrets & values.keys())
        if not names:
            hint = f"Declared: {', '.join(sorted(project.secrets)) or 'none'}."
            raise SvcError(f"{file} has no value of a secret that {MANIFEST} declares", hint)
        for name in names:
            _check_size(f"the value of {name}", values[name].encode())
        if others := sorted(values.keys() - project.secrets):
            stderr.note(f"not sent, because {MANIFEST} declares no such secrets: {', '.join(others)}")
        prompt.confirm(f"set {', '.join(names)} of {project.name} at {client.url}?", yes=yes)
        for name in names:
            client.call("PUT", _path(name), {"value": values[name]})
            stderr.note(f"set {name}")


@secret.command("list")
def list_secrets() -> Answer:
    """List the names of the project's secrets; values are never shown."""
    with project_service() as (client, _):
        secrets = client.get("secrets")
    return Answer(secrets, secrets["secrets"])


@secret.command("rm")
def remove_secret(name: Name, yes: Yes = False) -> None:
    """Remove a secret."""
    with project_service() as (client, _):
        prompt.confirm(f"remove the secret {name} and its value?", yes=yes)
        client.call("DELETE", _path(name))
    stderr.note(f"removed {name}")


domain = Commands(help="Show and check the domains of the project.")
OfService = Annotated[bool, flag("Show the certificate of the service, as without a project.", "--service")]


@domain.command("list")
def list_domains(service: OfService = False) -> Answer:
    """List the domains of the live deployment and their states."""
    if service or current_project() is None:
        listed = call_service("GET", "/v1/certificate")
        lines = service_lines(listed["certificate"]) if listed["certificate"] else []
        note = "" if lines else "the service uses no certificate; without --acme or --tls-cert, a proxy does"
    else:
        with project_service() as (client, project):
            listed = client.get("domains")
        lines = domain_lines(project.name, listed)
        add = f'{project.name} has no domains; add some to a public resource: domains = ["…"]'
        note = "" if listed["domains"] else add
    return Answer(listed, lines, before=note)


@domain.command()
def check(
    name: Annotated[
        str | None,
        argument("[NAME]", "Domain, in svc.toml or not, or an address (default: the domain of the service)."),
    ] = None,
) -> Answer:
    """Show the DNS records that a domain needs, and whether it works. Retry a certificate that failed."""
    name = name if name is None else parse_domain(name)
    if name is None or current_project() is None:
        result = call_service("POST", "/v1/certificate/check", {"name": name or ""})
    else:
        with project_service() as (client, _):
            result = client.call("POST", f"domains/{quote(name, safe='')}/check")
    return Answer(result, _check_lines(result))


def _check_lines(result: dict[str, Any]) -> list[Text]:
    state = "not in the live svc.toml"
    if result["state"]:
        texts = result["resource"], domain_state(result | {"detail": ""})[1]
        state = "  ".join(filter(None, texts))
    lines = [Text.assemble((result["name"], "bold"), f"  {state}")]
    if result["retries"]:
        shown = "list" if result["records"] else "list --service"
        lines.append(Text(f"svc tries again now; `svc domain {shown}` shows the result"))
    lines.append(Text("records to set at the DNS provider:"))
    own = f"A, AAAA  {result['name']} and *.{result['name']}: the addresses of the server"
    alias, *addresses = map(record_line, result["records"]) if result["records"] else [own]
    lines.append(Text(f"  {alias}"))
    if addresses:
        lines.append(Text("or, as for a name without a subdomain:"))
    lines += [Text(f"  {each}") for each in addresses]
    lines.append(Text("DNS now:"))
    lines += [
        Text.assemble(
            ("  ▲ ", "red") if each["problem"] else ("  ● ", "green"),
            f"{each['address']} {each['problem'] or 'reaches this service'}",
            f": change the {'AAAA' if ':' in each['address'] else 'A'} or CNAME record that leads there"
            if each["problem"]
            else "",
        )
        for each in result["addresses"]
    ] or [Text.assemble(("  ◌ ", "yellow"), result["dns"])]
    if (issuance := result["issuance"]) is None:
        return lines
    lines.append(Text("certificate authority:"))
    problem, record = issuance["problem"], issuance["record"]
    if not problem:
        return [*lines, Text.assemble(("  ● ", "green"), "may issue a certificate for this name")]
    lines.append(Text.assemble(("  ▲ ", "red"), problem + (", so set another one:" if record else "")))
    return lines + ([Text(f"    {record_line(record)}")] if record else [])
