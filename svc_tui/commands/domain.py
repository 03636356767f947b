"""`svc domain`: the custom domains of the project, and their DNS."""

from typing import Annotated, Any
from urllib.parse import quote

from rich.text import Text

from engine.manifest.egress import parse_domain
from svc_tui.client.credentials import call_service, current_project, project_service
from svc_tui.commands.options import Commands, argument, flag
from svc_tui.deploy.format import domain_lines, domain_state, record_line, service_lines
from svc_tui.terminal.stdout import Answer

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
            listed = client.call("GET", f"/v1/projects/{project.name}/domains")
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
        with project_service() as (client, project):
            path = f"/v1/projects/{project.name}/domains/{quote(name, safe='')}/check"
            result = client.call("POST", path)
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
