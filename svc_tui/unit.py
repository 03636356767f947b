"""The systemd units of a service: what runs it, and what keeps its sockets. Owns their text."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from engine.errors import SvcError
from engine.listen import BACKLOG, hosts
from engine.peers import parsed

_SERVICE = """\
[Unit]
Description=svc: hosts small web applications
Requires=svc.socket
After=svc.socket network-online.target
Wants=network-online.target
StartLimitIntervalSec=0

[Service]
Type=notify
ExecStart={command}
Restart=always
RestartSec=1
KillMode=mixed
TimeoutStartSec={start}
TimeoutStopSec={stop:.0f}
LimitNOFILE=65536
User=svc
Environment=SVC_HOME={home}
UMask=0077
CapabilityBoundingSet=
NoNewPrivileges=true
ProtectSystem=strict
ProtectHome=true
ProtectProc=invisible
ProtectClock=true
ProtectHostname=true
ProtectKernelLogs=true
ProtectKernelModules=true
ProtectKernelTunables=true
ProtectControlGroups=true
PrivateTmp=true
PrivateDevices=true
LockPersonality=true
RestrictNamespaces=true
RestrictRealtime=true
RestrictSUIDSGID=true
SystemCallArchitectures=native
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
ReadWritePaths={data}

[Install]
WantedBy=multi-user.target"""

_SOCKET = """\
[Unit]
Description=svc: its sockets, where connections wait while it restarts

[Socket]
{listen}
BindIPv6Only=both
FreeBind=true
Backlog={backlog}

[Install]
WantedBy=sockets.target"""


_PATHS = ("--data", "--tls-cert", "--tls-key")
_PRINTS = ("--print-unit", "--print-socket")
_START_SECONDS = 900
"""What a start may take: after an update or a restore, everything that is live is compiled anew."""
_STOP_SECONDS = 20
"""What a stop takes beside the grace."""


def service_unit(arguments: Sequence[str], data: Path, grace: float) -> str:
    """Return a unit that runs `svc` with these arguments as the user `svc`, who may write to `data` alone.

    Paths in it are absolute, because systemd starts programs in `/`; `grace` is in seconds. The sockets come
    from the unit beside it, so that svc needs no right to open ports below 1024.
    """
    program = str(Path(sys.prefix) / "bin" / "svc")
    options = [argument for argument in arguments[1:] if argument not in _PRINTS]
    if "--data" not in options and not any(each.startswith("--data=") for each in options):
        options += ["--data", str(data)]
    command = shlex.join([program, *_absolute(options)]).replace("%", "%%")
    return _SERVICE.format(
        command=command, home=data, data=data, start=_START_SECONDS, stop=grace + _STOP_SECONDS
    )


def socket_unit(addresses: Sequence[tuple[str, int]]) -> str:
    """Return the unit of the sockets on these hosts and ports. Raises `SvcError` where systemd can not."""
    lines = []
    for host, port in addresses:
        for each in hosts(host):
            if not port or parsed(each) is None:
                raise SvcError(
                    f"systemd can not listen on {host} port {port}",
                    "It needs an address as in 0.0.0.0:443 and a port that is not 0.",
                    code="usage",
                )
            lines.append(f"ListenStream=[{each}]:{port}" if ":" in each else f"ListenStream={each}:{port}")
    return _SOCKET.format(listen="\n".join(lines), backlog=BACKLOG)


def _absolute(options: Sequence[str]) -> list[str]:
    made = []
    for before, option in zip(("", *options), options, strict=False):
        name, equals, path = option.partition("=")
        if before in _PATHS:
            made.append(str(Path(option).expanduser().absolute()))
        elif equals and name in _PATHS:
            made.append(f"{name}={Path(path).expanduser().absolute()}")
        else:
            made.append(option)
    return made
