"""systemd: units from `template.service` and `template.socket`, socket activation and notification.

Sockets that systemd holds stay open while svc restarts, so connections queue instead of being refused
(sd_listen_fds(3), sd_notify(3)).
"""

import os
import re
import socket
import sys
from collections.abc import MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

from engine.errors import InvalidUsage, SvcError
from engine.http.connection_limits import parse_ip
from engine.http.sockets import BACKLOG, authority, resolve_localhost

FIRST_DESCRIPTOR = 3
"""File descriptor of the first socket."""
_PATHS = ("--data", "--tls-cert", "--tls-key", "--acme-ca-file")
_PRINTS = ("--print-unit", "--print-socket")
_PLAIN = re.compile(r"[\w@/.,:=+\[\]-]+")
_NAME = re.compile(r"[a-z_][a-z0-9_-]{0,30}")
_START_SECONDS = 900
"""Start timeout: after an update or a restore, all live components are compiled again."""
_MEMORY_MAX = "90%"
"""Limit of the unit's cgroup. The default memory budget is 80 % of it; compilers use the rest."""
_STOP_SECONDS = 20
"""Stop timeout beyond the graceful-shutdown timeout."""


@dataclass(frozen=True, slots=True)
class SystemdHandoff:
    """Sockets and notification address from the service manager; `sockets` are the unclaimed ones."""

    sockets: list[socket.socket]
    notify_socket: str = ""
    """Address of the notification socket; empty for none."""

    @classmethod
    def from_environment(cls, environ: MutableMapping[str, str], pid: int) -> "SystemdHandoff":
        """Read the handoff and remove its variables, so that child processes do not use it.

        Raises `SvcError` for a descriptor that is not a listening TCP socket.
        """
        listen_pid, count = environ.pop("LISTEN_PID", ""), environ.pop("LISTEN_FDS", "")
        environ.pop("LISTEN_FDNAMES", None)
        number = int(count) if listen_pid == str(pid) and count.isdecimal() else 0
        sockets = [_listening(FIRST_DESCRIPTOR + i) for i in range(number)]
        return cls(sockets, environ.pop("NOTIFY_SOCKET", ""))

    def claim(self, host: str, port: int) -> list[socket.socket]:
        """Return the sockets that listen on an address; the caller then owns them."""
        addresses = [(parse_ip(address), port) for address in resolve_localhost(host) if parse_ip(address)]
        places = {sock: sock.getsockname()[:2] for sock in self.sockets}
        claimed = [sock for sock, (ip, at) in places.items() if (parse_ip(ip), at) in addresses]
        for sock in claimed:
            self.sockets.remove(sock)
        return claimed

    def require_all_claimed(self, unit: str) -> None:
        """Raise `SvcError` for an unclaimed socket, whose clients would wait forever.

        `unit` names the socket unit in the hint.
        """
        for unclaimed in self.sockets:
            raise InvalidUsage(
                f"the systemd socket {authority(unclaimed)} is neither --listen, --control nor --acme-http",
                f"Use the same addresses in the options of svc serve and in ListenStream= of {unit}.",
            )

    def notify(self, state: str) -> None:
        """Send a state to the service manager: `READY=1`, `STOPPING=1`."""
        if not self.notify_socket:
            return
        name = "\0" + self.notify_socket[1:] if self.notify_socket.startswith("@") else self.notify_socket
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end, suppress(OSError):
            end.sendto(state.encode(), name)


def _listening(number: int) -> socket.socket:
    try:
        os.set_inheritable(number, False)
        opened = socket.socket(fileno=number)
        is_tcp = opened.family in (socket.AF_INET, socket.AF_INET6) and opened.type == socket.SOCK_STREAM
        listens = is_tcp and opened.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    except OSError:
        listens = False
    if not listens:
        raise SvcError(
            f"the inherited descriptor {number} is not a listening TCP socket",
            "Use ListenStream= with an address and a port, and Accept=no.",
        )
    opened.setblocking(False)
    return opened


def check_name(name: str) -> None:
    """Raise `SvcError` for an invalid name of the units and their Linux user (useradd(8))."""
    if not _NAME.fullmatch(name):
        raise InvalidUsage(
            f'invalid name "{name}" for systemd units and their user',
            "Use up to 31 lower-case letters, digits, - and _, not starting with a digit or -.",
        )


def service_unit(
    name: str, arguments: Sequence[str], data: Path, *, grace: float, memory_mib: int, backup: str = ""
) -> str:
    """Return a unit that runs `svc` with these arguments as the user `name`, with write access only to `data`
    and to the folder of the URL `backup`, if it exists.

    Its file name is `name`.service. Paths in it are absolute, because systemd starts programs in `/`; `grace`
    is in seconds, `memory_mib` the memory budget or 0. `name`.socket provides the sockets, so that svc needs
    no privilege for ports below 1024.
    """
    from svc_tui.backup.store import folder_of  # Imported on demand: it takes long.

    program = str(Path(sys.prefix) / "bin" / "svc")
    # The folder of `svc -C DIR serve` is already part of the absolute paths.
    words = enumerate(pairwise(arguments), 1)
    first = next((i for i, (before, word) in words if word == "serve" and before != "-C"), 1)
    options = [argument for argument in arguments[first:] if argument not in _PRINTS]
    if "--data" not in options and not any(option.startswith("--data=") for option in options):
        options += ["--data", str(data)]
    command = " ".join(_quoted(word).replace("$", "$$") for word in [program, *_absolute(options)])
    return _template("service").format(
        name=name,
        command=command,
        home=_quoted(f"SVC_HOME={data}"),
        data=" ".join(map(_quoted, [str(data), *(f"-{each}" for each in [folder_of(backup)] if each)])),
        start=_START_SECONDS,
        stop=grace + _STOP_SECONDS,
        memory=f"{memory_mib * 5 // 4}M" if memory_mib else _MEMORY_MAX,
    )


def socket_unit(name: str, addresses: Sequence[tuple[str, int]]) -> str:
    """Return the unit `name`.socket with these hosts and ports.

    Raises `SvcError` for addresses that systemd cannot listen on.
    """
    lines = []
    for host, port in addresses:
        for address in resolve_localhost(host):
            if not port or parse_ip(address) is None:
                raise InvalidUsage(
                    f"systemd cannot listen on {host} port {port}",
                    "Use an IP address and a port other than 0, as in 0.0.0.0:443.",
                )
            lines.append(
                f"ListenStream=[{address}]:{port}" if ":" in address else f"ListenStream={address}:{port}"
            )
    return _template("socket").format(name=name, listen="\n".join(lines), backlog=BACKLOG)


def _template(kind: str) -> str:
    return files("svc_tui.serve").joinpath(f"template.{kind}").read_text("utf-8").rstrip("\n")


def _quoted(word: str) -> str:
    """Return a word escaped for a unit file (systemd.syntax(7); systemd.unit(5) for `%`)."""
    if _PLAIN.fullmatch(word):
        return word
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("%", "%%")
    return f'"{escaped}"'


def _absolute(options: Sequence[str]) -> list[str]:
    result = []
    for before, option in zip(("", *options), options, strict=False):
        name, equals, path = option.partition("=")
        if before in _PATHS:
            result.append(str(Path(option).expanduser().absolute()))
        elif equals and name in _PATHS:
            result.append(f"{name}={Path(path).expanduser().absolute()}")
        else:
            result.append(option)
    return result
