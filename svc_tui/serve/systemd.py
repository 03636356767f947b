"""systemd integration: socket activation (sd_listen_fds(3)) and readiness notification (sd_notify(3)).

Sockets that systemd holds stay open while svc restarts, so connections queue instead of being refused.
"""

import os
import socket
from collections.abc import MutableMapping
from contextlib import suppress
from dataclasses import dataclass

from engine.errors import InvalidUsage, SvcError
from engine.http.connection_limits import Address, parse_ip
from engine.http.sockets import authority, resolve_localhost

FIRST_DESCRIPTOR = 3
"""File descriptor of the first socket."""


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
        claimed = [sock for sock in self.sockets if _address(sock) in addresses]
        for sock in claimed:
            self.sockets.remove(sock)
        return claimed

    def require_all_claimed(self, unit: str) -> None:
        """Raise `SvcError` for an unclaimed socket, whose clients would wait forever.

        `unit` names the socket unit in the hint.
        """
        for unclaimed in self.sockets:
            raise InvalidUsage(
                f"the systemd socket {authority(unclaimed)} matches neither --listen nor --control",
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


def _address(opened: socket.socket) -> tuple[Address | None, int]:
    host, port = opened.getsockname()[:2]
    return parse_ip(host), port
