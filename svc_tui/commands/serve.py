"""`svc serve`."""

import asyncio
import os
import re
import socket
import ssl
import sys
import threading
import time
from contextlib import ExitStack, suppress
from dataclasses import replace
from ipaddress import ip_network
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from engine.certificates.settings import LETS_ENCRYPT, AcmeSettings, require_acme, require_dns
from engine.errors import InvalidUsage
from engine.event_loop import run
from engine.gateway.client_address import Network
from engine.http.connection_limits import PER_ADDRESS
from engine.http.exchange import MAX_BODY
from engine.http.sockets import PortInUse, authority, bind, bind_reuseport, raise_fd_limit
from engine.http.tls import Certificate
from engine.manifest.egress import parse_collector
from engine.otlp import require_otlp
from svc_tui.client.credentials import is_loopback
from svc_tui.commands.fleet import parse_address
from svc_tui.commands.options import MaxBody, Workers, flag, option
from svc_tui.garbage_collection import collect_for_server
from svc_tui.serve.systemd import SystemdHandoff, check_name, service_unit, socket_unit
from svc_tui.terminal import stderr, stdout
from svc_tui.terminal.signals import on_stop
from svc_tui.user_home import Home

if TYPE_CHECKING:
    from engine.alerts.alerts import Target
    from svc_tui.serve.runtime import ServiceSettings

GRACE_SECONDS = 10.0
END_SECONDS = 10.0
"""Time after `--grace` until the process ends without the threads that are in an endless step of SQLite."""
MIN_MEMORY_MIB = 256
_LABEL = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_REGION = re.compile(r"[A-Za-z0-9._-]{1,63}")
_DOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_MAX_DOMAIN_CHARS = 253 - 64
"""A DNS name has at most 253 characters (RFC 1035); `<resource>--<project>.` takes up to 64 of them."""


def serve(
    data: Annotated[Path | None, option("DIR", "Data directory (default: data in SVC_HOME).")] = None,
    join: Annotated[
        str,
        option(
            "TOKEN",
            "Join the fleet of a token (default: SVC_JOIN); later starts of this node ignore it.",
            envvar="SVC_JOIN",
        ),
    ] = "",
    fleet_listen: Annotated[
        str,
        option(
            "HOST[:PORT]",
            "With --join: address of this machine for other nodes (default: its address towards them, "
            "port 4222).",
        ),
    ] = "",
    listen: Annotated[
        str,
        option(
            "HOST:PORT", "Address to serve applications on (default: 127.0.0.1:8080; with --acme: [::]:443)."
        ),
    ] = "",
    control: Annotated[str, option("HOST:PORT", "Address to serve the control API on.")] = "127.0.0.1:8081",
    domain: Annotated[str, option("DOMAIN", "Domain of the applications: <project>.DOMAIN.")] = "localhost",
    tls_cert: Annotated[Path | None, option("FILE", "TLS certificate with its chain, as PEM.")] = None,
    tls_key: Annotated[Path | None, option("FILE", "Private key of the certificate, as PEM.")] = None,
    acme: Annotated[str, option("MAIL", "Obtain certificates by ACME, with this mail address.")] = "",
    acme_http: Annotated[
        str,
        option(
            "HOST:PORT",
            "Address of ACME challenges and redirects to https (default: port 80 of --listen's host).",
        ),
    ] = "",
    acme_directory: Annotated[
        str, option("URL", "ACME directory of the certificate authority.")
    ] = LETS_ENCRYPT,
    acme_ca_file: Annotated[
        Path | None, option("FILE", "Certificates to trust the authority by, as PEM.")
    ] = None,
    acme_dns: Annotated[
        str,
        option(
            "PROVIDER",
            "Obtain a wildcard certificate by DNS records at this provider: rfc2136, or one of lexicon.",
        ),
    ] = "",
    proxied: Annotated[
        bool, flag("A reverse proxy terminates TLS: public URLs are https:// without a port.", "--proxied")
    ] = False,
    trusted_proxy: Annotated[
        list[str] | None,
        option("CIDR", "Network of proxies whose X-Forwarded-For names the client; repeatable."),
    ] = None,
    workers: Workers = 1,
    grace: Annotated[
        float, option("SECONDS", "Graceful-shutdown timeout in seconds.", min=0, max=900)
    ] = GRACE_SECONDS,
    per_address: Annotated[
        int, option("N", "Maximum concurrent connections per client IP; 0: no limit.", min=0)
    ] = PER_ADDRESS,
    max_body: MaxBody = MAX_BODY >> 20,
    memory: Annotated[
        int | None,
        option(
            "MIB",
            "Memory budget of all processes in MiB (default: 80 % of the machine's or the cgroup's).",
            min=MIN_MEMORY_MIB,
        ),
    ] = None,
    otlp: Annotated[
        str, option("URL", "Send logs, traces and metrics of all projects to this collector by OTLP/HTTP.")
    ] = "",
    backup: Annotated[
        str, option("URL", "Back up within a second to s3://BUCKET/PREFIX, gs://…, az://… or file:///FOLDER.")
    ] = "",
    log_days: Annotated[
        int,
        option(
            "N",
            "Days of the history of tables, and of the moments that a backup can be restored to.",
            "--log-days",
            min=1,
            max=3650,
        ),
    ] = 7,
    region: Annotated[
        str,
        option(
            "NAME",
            "Region of this machine, as in its log records (default: SVC_REGION).",
            envvar="SVC_REGION",
        ),
    ] = "",
    notify: Annotated[
        list[str] | None,
        option(
            "URL",
            "Send alerts to a webhook (https://…) or to a service of Apprise; repeatable (default: "
            "SVC_NOTIFY).",
            envvar="SVC_NOTIFY",
        ),
    ] = None,
    no_console: Annotated[
        bool, flag("Do not serve the Console to browsers at /console/.", "--no-console")
    ] = False,
    name: Annotated[str, option("NAME", "Name of the systemd units and of their system user.")] = "svc",
    print_unit: Annotated[
        bool, flag("Print a systemd service unit for these options and exit.", "--print-unit")
    ] = False,
    print_socket: Annotated[
        bool, flag("Print the matching systemd socket unit and exit.", "--print-socket")
    ] = False,
) -> None:
    """Run the service: serve deployed projects and accept deploys."""
    if (tls_cert is None) != (tls_key is None):
        raise InvalidUsage("--tls-cert and --tls-key require each other", "Pass both or neither.")
    certificate = Certificate(tls_cert.absolute(), tls_key.absolute()) if tls_cert and tls_key else None
    if certificate is not None:
        certificate.load()
    folder = Home.from_environment(os.environ).data(data)
    listen = listen or ("[::]:443" if acme else "127.0.0.1:8080")
    addresses = [_address("--listen", listen), _address("--control", control)]
    if certificate is None and not acme and not is_loopback(addresses[1][0]):
        hint = "Pass --acme, or --tls-cert and --tls-key, or use --control 127.0.0.1:PORT."
        raise InvalidUsage(f"the control API at {control} would receive passwords without TLS", hint)
    domain = domain.lower().strip(".")
    address = domain.rpartition(".")[2].isdecimal()  # Of IPv4: no domain below ends with a number.
    if address or not _DOMAIN.fullmatch(domain) or len(domain) > _MAX_DOMAIN_CHARS:
        raise InvalidUsage(
            f'"{domain}" is not a valid domain',
            f"Use a name such as apps.example.com: at most {_MAX_DOMAIN_CHARS} characters, 63 per label, "
            "international names in Punycode (xn--…).",
        )
    if addresses[0] == addresses[1] and addresses[0][1]:
        hint = "Pass a different port for one of them."
        raise InvalidUsage(f"--listen and --control are both {listen}", hint)
    authority_settings = None
    if acme:
        if certificate is not None or proxied:
            raise InvalidUsage("--acme excludes --tls-cert and --proxied", "Pass one of them.")
        authority_settings = _acme(acme, domain, acme_directory, acme_ca_file)
        addresses.append(_address("--acme-http", acme_http) if acme_http else (addresses[0][0], 80))
        if addresses[2] in addresses[:2] and addresses[2][1]:
            raise InvalidUsage(
                f"--acme-http is {acme_http or listen}, the address of --listen or --control",
                "Pass different ports.",
            )
        if acme_dns:
            require_dns()
    elif acme_http or acme_ca_file or acme_dns or acme_directory != LETS_ENCRYPT:
        raise InvalidUsage("options --acme-… require --acme", "Pass --acme MAIL.")
    if region and not _REGION.fullmatch(region):
        hint = "Use at most 63 letters, digits, dots, - and _."
        raise InvalidUsage(f'"{region}" is not a name of a region', hint)
    collector = None
    if otlp:
        try:
            collector = parse_collector(otlp)
        except ValueError:
            hint = "Use scheme, host and port, for example http://127.0.0.1:4318."
            raise InvalidUsage(f"--otlp {otlp} is not the URL of a collector", hint) from None
        require_otlp()
    trusted_proxies = tuple(map(_network, trusted_proxy or ()))
    targets: list[Target] = []
    if notify:
        from engine.alerts.alerts import parse_target

        targets = list(map(parse_target, notify))
    check_name(name)
    if print_unit:
        stdout.line(service_unit(name, sys.argv, folder, grace=grace, memory_mib=memory or 0, backup=backup))
    if print_socket:
        stdout.line(socket_unit(name, addresses))
    if print_unit or print_socket:
        return
    if authority_settings is not None and acme_dns:
        from engine.certificates.dns_provider import DnsProvider

        provider = DnsProvider(acme_dns, domain, os.environ)
        authority_settings = replace(authority_settings, dns=provider)
    # Imported on demand: with the control API, it takes most of a start.
    from svc_tui.serve.runtime import ServiceSettings

    raise_fd_limit()
    supervisor = SystemdHandoff.from_environment(os.environ, os.getpid())
    with ExitStack() as stack:  # A start that fails closes the sockets, too.
        public = _bound(stack, supervisor, "--listen", addresses[0], workers)
        controls = _bound(stack, supervisor, "--control", addresses[1])
        plain = _bound(stack, supervisor, "--acme-http", addresses[2])[0] if acme else []
        supervisor.require_all_claimed(f"{name}.socket")
        scheme = "https" if certificate or acme or proxied else "http"
        port = public[0][0].getsockname()[1]
        default_port = proxied or port == (443 if scheme == "https" else 80)
        settings = ServiceSettings(
            data=folder,
            public=public,
            control=controls[0],
            domain=domain,
            origin=f"{scheme}://{{}}" if default_port else f"{scheme}://{{}}:{port}",
            certificate=certificate,
            acme=authority_settings,
            plain=plain,
            grace=grace,
            log=stderr.log,
            per_address=per_address,
            proxied=proxied,
            trusted_proxies=trusted_proxies,
            max_body=max_body << 20,
            memory=(memory or 0) << 20,
            join=join,
            otlp=collector,
            backup=backup,
            log_days=log_days,
            region=region,
            notify=targets,
            console=not no_console,
            fleet_listen=parse_address("--fleet-listen", fleet_listen) if fleet_listen else None,
        )
        stopped: float | None = None
        while True:
            duplicated = (settings.public[0], settings.control, settings.plain)
            spare = [[sock.dup() for sock in sockets] for sockets in duplicated]
            settings = replace(settings, spare=[*chain(*spare)])
            for sock in settings.spare:
                stack.callback(sock.close)
            stopped = run(_run(settings, supervisor, stopped))
            if stopped is None:
                return
            settings = replace(settings, public=[spare[0]], control=spare[1], plain=spare[2])


async def _run(
    settings: "ServiceSettings", supervisor: SystemdHandoff, stopped: float | None
) -> float | None:
    """Serve until a signal, or until the service stops in order to become a fleet; return when (monotonic).

    `stopped` is when it did so before.
    """
    from engine.fleet.errors import FleetStopped
    from engine.fleet.node import find_node
    from svc_tui.serve.server import run_service

    stop = asyncio.Event()

    def close_spare() -> None:
        """Close the duplicates, so that the system refuses connections once the service does."""
        for sock in settings.spare:
            sock.close()

    def on_signal(_: int) -> None:
        supervisor.notify("STOPPING=1")
        close_spare()
        stop.set()
        ending = threading.Timer(settings.grace + END_SECONDS, _end)
        ending.daemon = True
        ending.start()

    on_stop(on_signal)
    with suppress(FleetStopped):
        async with run_service(settings, stop) as serving:
            collect_for_server()
            node = find_node(settings.data)
            if node is not None and node.state == "member":
                close_spare()
            if stopped is None:
                host, port = settings.control[0].getsockname()[:2]
                where = authority(settings.control[0])
                if settings.secure and not is_loopback(host):
                    where = f"{settings.domain}:{port}"  # The name in the certificate.
                stdout.line(f"control API   {'https' if settings.secure else 'http'}://{where}")
                stdout.line(f"applications  {settings.origin.format('<project>.' + settings.domain)}")
                if settings.console:
                    stdout.line(f"Console       {settings.address}/console/")
            else:
                stderr.log("info", f"the service serves again, after {time.monotonic() - stopped:.1f} s")
            supervisor.notify("READY=1")
            await serving
            stopped = time.monotonic()
    return None if stop.is_set() else stopped


def _end() -> None:
    stderr.log("warning", "work in progress cannot be interrupted; the service ends without it")
    os._exit(0)


def _network(text: str) -> Network:
    try:
        return ip_network(text)
    except ValueError as error:
        hint = "Use an address or a network in CIDR notation, for example 10.0.0.0/8."
        raise InvalidUsage(f"--trusted-proxy {text} is not a network: {error}", hint) from None


def _acme(email: str, domain: str, directory: str, ca_file: Path | None) -> AcmeSettings:
    if not re.fullmatch(r"[^@\s]+@[^@\s]+\.[^@\s]+", email):
        raise InvalidUsage(f'--acme "{email}" is not a mail address', "For example: --acme you@example.com")
    if "." not in domain:
        hint = "Pass --domain, a domain that leads here."
        raise InvalidUsage(f"an authority issues no certificates for {domain}", hint)
    if not directory.startswith("https://"):
        hint = f"For example: {LETS_ENCRYPT}"
        raise InvalidUsage(f"--acme-directory {directory} is not an https URL", hint)
    if ca_file is not None:
        try:
            ssl.create_default_context(cafile=ca_file)
        except (OSError, ssl.SSLError) as error:
            hint = "Pass certificates in PEM format."
            raise InvalidUsage(f"--acme-ca-file {ca_file} cannot be used: {error}", hint) from None
    require_acme()
    return AcmeSettings(email, directory, str(ca_file.absolute()) if ca_file is not None else "")


def _address(option: str, text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not (port.isascii() and port.isdigit() and int(port) < 65536):
        hint = "Use HOST:PORT, for example 127.0.0.1:8080."
        raise InvalidUsage(f"{option} {text} is not a valid address", hint)
    return host, int(port)


def _bound(
    stack: ExitStack, supervisor: SystemdHandoff, option: str, address: tuple[str, int], count: int = 1
) -> list[list[socket.socket]]:
    """Return the sockets of each of `count` processes: those from systemd, else new ones.

    A new one for the only process does not listen. `stack` closes them. Raises `PortInUse`.
    """
    try:
        if from_systemd := supervisor.claim(*address):
            sockets = [from_systemd, *([sock.dup() for sock in from_systemd] for _ in range(count - 1))]
        else:
            sockets = bind_reuseport(*address, count) if count > 1 else [bind(*address, listens=False)]
    except PortInUse as error:
        raise PortInUse(error.message, f"Stop that program, or pass another port with {option}.") from error
    for sock in chain.from_iterable(sockets):
        stack.callback(sock.close)
    return sockets
