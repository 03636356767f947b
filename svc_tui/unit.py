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
TimeoutStopSec=30
LimitNOFILE=65536
User=svc
Environment=SVC_HOME={home}
AmbientCapabilities=CAP_NET_BIND_SERVICE
NoNewPrivileges=true
ProtectSystem=strict
ProtectHome=true
PrivateTmp=true
ReadWritePaths={data}

[Install]
WantedBy=multi-user.target"""


def unit(arguments: Sequence[str], data: Path) -> str:
    """Return a unit that runs `svc` with these arguments as the user `svc`, who may write to `data` alone."""
    program = str(Path(sys.prefix) / "bin" / "svc")
    options = [argument for argument in arguments[1:] if argument != "--print-unit"]
    if "--data" not in options and not any(each.startswith("--data=") for each in options):
        options += ["--data", str(data)]
    command = shlex.join([program, *options]).replace("%", "%%")
    return _UNIT.format(command=command, home=data, data=data)
