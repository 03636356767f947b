"""The systemd unit of a service. Owns its text."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

_UNIT = """\
[Unit]
Description=svc: hosts small web applications
After=network-online.target
Wants=network-online.target

[Service]
ExecStart={command}
Restart=always
RestartSec=1
KillMode=mixed
TimeoutStopSec={stop:.0f}
LimitNOFILE=65536
User=svc
Environment=SVC_HOME={home}
UMask=0077
AmbientCapabilities=CAP_NET_BIND_SERVICE
CapabilityBoundingSet=CAP_NET_BIND_SERVICE
NoNewPrivileges=true
ProtectSystem=strict
ProtectHome=true
PrivateTmp=true
ReadWritePaths={data}

[Install]
WantedBy=multi-user.target"""


_PATHS = ("--data", "--tls-cert", "--tls-key")
_STOP_SECONDS = 20
"""What a stop takes beside the grace."""


def unit(arguments: Sequence[str], data: Path, grace: float) -> str:
    """Return a unit that runs `svc` with these arguments as the user `svc`, who may write to `data` alone.

    Paths in it are absolute, because systemd starts programs in `/`; `grace` is in seconds.
    """
    program = str(Path(sys.prefix) / "bin" / "svc")
    options = [argument for argument in arguments[1:] if argument != "--print-unit"]
    if "--data" not in options and not any(each.startswith("--data=") for each in options):
        options += ["--data", str(data)]
    command = shlex.join([program, *_absolute(options)]).replace("%", "%%")
    return _UNIT.format(command=command, home=data, data=data, stop=grace + _STOP_SECONDS)


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
