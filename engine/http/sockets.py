"""Listening sockets: their addresses and ports, and the errors of binding them."""

import contextlib
import errno
import resource
import socket

from engine.errors import SvcError
from engine.files.reserve import MAX_OPEN_FILES

BACKLOG = 1024
_PORTS_TRIED = 50


class PortInUse(SvcError):
    """Another program listens on the port."""

    code = "port-in-use"


def raise_fd_limit() -> None:
    """Raise the soft limit on open files, which child processes inherit, because each client needs one.

    It becomes the hard limit, but at most `MAX_OPEN_FILES`. Many systems start a program with 1024.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(MAX_OPEN_FILES, hard)
    if soft == resource.RLIM_INFINITY or soft >= target:
        return
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))


def authority(listener: socket.socket) -> str:
    """Return `host:port` of a listening socket, as in a URL."""
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def resolve_localhost(host: str) -> list[str]:
    """Return the addresses of a host: both 127.0.0.1 and ::1 for `localhost`."""
    return ["127.0.0.1", "::1"] if host == "localhost" else [host]


def bind(host: str, port: int, *, listens: bool = True) -> list[socket.socket]:
    """Return listening sockets on an address, or on both of `localhost`; `::` includes all of IPv4.

    Port 0 selects a free port, the same for both families. Without `listens` they only hold the address.
    Raises `PortInUse`, or `SvcError` for an address that this machine does not have.
    """
    tries = _PORTS_TRIED if port == 0 else 1
    while True:
        tries -= 1
        try:
            return _bind_all(resolve_localhost(host), port, listens=listens)
        except PortInUse:
            if not tries:
                raise


def listen(listener: socket.socket) -> None:
    """Begin to accept connections, unless a socket does so already. Raises `PortInUse`."""
    if not listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        try:
            listener.listen(BACKLOG)
        except OSError as error:  # Another program that held the address, too, was first.
            raise _in_use(listener.getsockname()[1]) from error


def bind_reuseport(host: str, port: int, count: int) -> list[list[socket.socket]]:
    """Return `count` sets of listening sockets on the same address, one for each process.

    The kernel spreads connections over them. Raises the errors of `bind`, even if another program of this
    user shares the port.
    """
    # It does not listen, because its connections would be reset when it closes.
    first = bind(host, port, listens=False)
    port = first[0].getsockname()[1]
    for listener in first:
        listener.close()
    return [_bind_all(resolve_localhost(host), port, shared=True) for _ in range(count)]


def _bind_all(
    addresses: list[str], port: int, *, shared: bool = False, listens: bool = True
) -> list[socket.socket]:
    sockets: list[socket.socket] = []
    try:
        for host in addresses:
            number = sockets[0].getsockname()[1] if sockets else port
            listener = _bind_one(host, number, optional=bool(sockets), shared=shared, listens=listens)
            if listener is not None:
                sockets.append(listener)
    except BaseException:
        for listener in sockets:
            listener.close()
        raise
    return sockets


def _bind_one(host: str, port: int, *, optional: bool, shared: bool, listens: bool) -> socket.socket | None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = None
    try:
        # asyncio turns Nagle's algorithm off only for sockets that name their protocol.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, host != "::")
        listener.bind((host, port))
        if listens:
            listener.listen(BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        if listener is not None:
            listener.close()
        if error.errno == errno.EADDRINUSE:
            raise _in_use(port) from error
        if error.errno == errno.EACCES:
            hint = "Take a port above 1023."
            raise SvcError(f"port {port} may not be used: {error.strerror}", hint) from error
        if optional:
            return None
        hint = "It needs an address that this machine has, as in 127.0.0.1, 0.0.0.0 or ::."
        raise SvcError(f"cannot listen on {host} port {port}: {error.strerror or error}", hint) from error
    return listener


def _in_use(port: int) -> PortInUse:
    hint = f"Stop that program, or take another port: --port {_free_port(port)}"
    return PortInUse(f"port {port} is in use by another program", hint)


def _free_port(after: int) -> int:
    """Return the next port that is free on both loopback addresses."""
    for port in range(after + 1, min(after + _PORTS_TRIED, 65535)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    return 0
