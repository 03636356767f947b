"""`svc serve`: the service itself."""

import asyncio
import os
import re
import signal
import socket
import sys
from pathlib import Path
from typing import Annotated

import typer

from engine.errors import SvcError
from engine.gateway.app import MAX_BODY
from engine.http.connection_limits import PER_ADDRESS, is_loopback
from engine.http.sockets import PortInUse, allow_connections, authority, bind, bind_each
from engine.http.tls import Certificate
from svc_tui.serve.server import ServiceSettings, run_service
from svc_tui.serve.systemd import SystemdHandoff
from svc_tui.serve.systemd_units import check_name, service_unit, socket_unit
from svc_tui.terminal import stderr, stdout
from svc_tui.user_home import Home

GRACE_SECONDS = 10.0
_LABEL = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_DOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_LONGEST_DOMAIN = 253 - 64
"""Characters: a name of DNS has 253, and `<resource>--<project>.` may take 64 of them (RFC 1035)."""


def serve(
    data: Annotated[
        Path | None, typer.Option("--data", metavar="DIR", help="Where everything is kept; ~/.svc/data.")
    ] = None,
    listen: Annotated[
        str, typer.Option("--listen", metavar="HOST:PORT", help="Address of the applications.")
    ] = "127.0.0.1:8080",
    control: Annotated[
        str, typer.Option("--control", metavar="HOST:PORT", help="Address of the control API.")
    ] = "127.0.0.1:8081",
    domain: Annotated[
        str, typer.Option("--domain", help="Applications are at <resource>--<project>.DOMAIN.")
    ] = "localhost",
    tls_cert: Annotated[
        Path | None, typer.Option("--tls-cert", metavar="FILE", help="Certificate with its chain, PEM.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="Its key, PEM.")] = None,
    proxied: Annotated[
        bool,
        typer.Option("--proxied", help="A proxy in front has TLS: everything is at https:// without a port."),
    ] = False,
    workers: Annotated[
        int, typer.Option("--workers", "-w", min=1, max=64, help="Processes that serve, a socket each.")
    ] = 1,
    grace: Annotated[
        float, typer.Option("--grace", min=0, max=900, help="Seconds that requests have to end at a stop.")
    ] = GRACE_SECONDS,
    per_address: Annotated[
        int,
        typer.Option("--per-address", min=0, help="Connections that one address may have; 0: no limit."),
    ] = PER_ADDRESS,
    max_body: Annotated[
        int, typer.Option("--max-body", metavar="MIB", min=1, max=1024, help="Most that a request may carry.")
    ] = MAX_BODY >> 20,
    name: Annotated[
        str, typer.Option("--name", help="Name of its systemd units, and of the user that runs it.")
    ] = "svc",
    print_unit: Annotated[
        bool, typer.Option("--print-unit", help="Print a systemd service for these options, and stop.")
    ] = False,
    print_socket: Annotated[
        bool, typer.Option("--print-socket", help="Print the systemd socket that belongs to it, and stop.")
    ] = False,
) -> None:
    """Serve every Project that is deployed here, and take deploys."""
    if (tls_cert is None) != (tls_key is None):
        raise SvcError("--tls-cert and --tls-key belong together", "Give both, or neither.", code="usage")
    certificate = Certificate(tls_cert.absolute(), tls_key.absolute()) if tls_cert and tls_key else None
    if certificate is not None:
        certificate.context()
    folder = (data or Home.from_environment(os.environ).root / "data").expanduser().absolute()
    public_host, public_port = _address("--listen", listen)
    control_host, control_port = _address("--control", control)
    if certificate is None and control_host != "localhost" and not is_loopback(control_host):
        raise SvcError(
            f"the control API at {control} would take passwords without TLS",
            "Give --tls-cert and --tls-key, or have it listen on 127.0.0.1.",
            code="usage",
        )
    domain = domain.lower().strip(".")
    if not _DOMAIN.fullmatch(domain) or len(domain) > _LONGEST_DOMAIN:
        raise SvcError(
            f'"{domain}" is no domain',
            f"A name as in apps.example.com, of at most {_LONGEST_DOMAIN} characters, 63 between two dots; "
            "other scripts as DNS has them, xn--….",
            code="usage",
        )
    if (public_host, public_port) == (control_host, control_port) and public_port:
        raise SvcError(
            f"--listen and --control are both {listen}",
            "Applications and the control API have a port each.",
            code="usage",
        )
    check_name(name)
    if print_unit:
        stdout.line(service_unit(name, sys.argv, folder, grace))
    if print_socket:
        stdout.line(socket_unit(name, [(public_host, public_port), (control_host, control_port)]))
    if print_unit or print_socket:
        return
    allow_connections()
    supervisor = SystemdHandoff.from_environment(os.environ, os.getpid())
    public = _bound("--listen", supervisor.claim(public_host, public_port), public_host, public_port, workers)
    controls = _bound("--control", supervisor.claim(control_host, control_port), control_host, control_port)
    supervisor.require_all_claimed(f"{name}.socket")
    scheme = "https" if certificate or proxied else "http"
    port = public[0][0].getsockname()[1]
    usual = proxied or port == (443 if scheme == "https" else 80)
    settings = ServiceSettings(
        folder,
        public,
        controls[0],
        domain,
        f"{scheme}://{{}}" if usual else f"{scheme}://{{}}:{port}",
        certificate,
        grace,
        stderr.log,
        per_address,
        proxied,
        max_body << 20,
    )
    asyncio.run(_run(settings, "https" if certificate else "http", supervisor))


async def _run(settings: ServiceSettings, scheme: str, supervisor: SystemdHandoff) -> None:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()

    def stopping() -> None:
        supervisor.notify("STOPPING=1")
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping)
    async with run_service(settings, stop) as serving:
        stdout.line(f"control API   {scheme}://{authority(settings.control[0])}")
        stdout.line(f"applications  {settings.origin.format('<resource>--<project>.' + settings.domain)}")
        supervisor.notify("READY=1")
        await serving


def _address(option: str, text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not (port.isascii() and port.isdigit() and int(port) < 65536):
        raise SvcError(f"{option} {text} is no address", "HOST:PORT, as in 127.0.0.1:8080.", code="usage")
    return host, int(port)


def _bound(
    option: str, handed: list[socket.socket], host: str, port: int, count: int = 1
) -> list[list[socket.socket]]:
    """Return a set of listening sockets for each of so many processes: those handed over, else new ones."""
    if handed:
        return [handed, *([opened.dup() for opened in handed] for _ in range(count - 1))]
    try:
        return bind_each(host, port, count) if count > 1 else [bind(host, port)]
    except PortInUse as error:
        raise PortInUse(error.message, f"Stop that program, or name another port with {option}.") from error
