"""What svc and the program that starts it have to say to each other: listening sockets, and when it serves.

systemd's protocols, sd_listen_fds(3) and sd_notify(3), which other programs speak too. Sockets that are
handed over stay open while svc restarts, so that connections wait instead of being refused.
"""

import os
import socket
from collections.abc import MutableMapping
from contextlib import suppress
from dataclasses import dataclass

from engine.errors import SvcError
from engine.http.connection_limits import Address, parsed
from engine.http.sockets import authority, hosts

FIRST_DESCRIPTOR = 3
"""The descriptor of the first socket."""


@dataclass(frozen=True, slots=True)
class SystemdHandoff:
    """Whoever started this process, if they said so; `sockets` are those that nobody has taken yet."""

    sockets: list[socket.socket]
    notify_socket: str = ""
    """Where it hears of states; empty for nowhere."""

    @classmethod
    def from_environment(cls, environ: MutableMapping[str, str], pid: int) -> "SystemdHandoff":
        """Take what was handed to this process, and the variables that say so: no other process is meant.

        Raises `SvcError` for a descriptor that is no listening socket of TCP.
        """
        meant, count = environ.pop("LISTEN_PID", ""), environ.pop("LISTEN_FDS", "")
        environ.pop("LISTEN_FDNAMES", None)
        given = int(count) if meant == str(pid) and count.isdecimal() else 0
        sockets = [_listening(FIRST_DESCRIPTOR + i) for i in range(given)]
        return cls(sockets, environ.pop("NOTIFY_SOCKET", ""))

    def claim(self, host: str, port: int) -> list[socket.socket]:
        """Return the sockets that listen on an address, which are the caller's from now on."""
        wanted = [(parsed(each), port) for each in hosts(host) if parsed(each)]
        found = [each for each in self.sockets if _address(each) in wanted]
        for each in found:
            self.sockets.remove(each)
        return found

    def require_all_claimed(self, unit: str) -> None:
        """Raise `SvcError` if there is a socket that nobody took: its clients would wait for ever.

        `unit` is the one that they are of, if it was systemd.
        """
        for left in self.sockets:
            raise SvcError(
                f"a socket on {authority(left)} was handed over, and neither --listen nor --control is that",
                f"Have the options of svc serve and ListenStream= in {unit} name the same addresses.",
                code="usage",
            )

    def notify(self, state: str) -> None:
        """Say what became of this process: `READY=1`, `STOPPING=1`."""
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
            f"descriptor {number} was handed over, and is no listening socket of TCP",
            "svc takes sockets of ListenStream= with an address and a port, and Accept=no.",
        )
    opened.setblocking(False)
    return opened


def _address(opened: socket.socket) -> tuple[Address | None, int]:
    host, port = opened.getsockname()[:2]
    return parsed(host), port
