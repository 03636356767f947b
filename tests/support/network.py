"""Machines of a test on a network whose links can be cut, slow or lossy.

Each machine is a network namespace with one TUN interface. A switch in the test's process forwards packets.
It needs the rights of root: `unshare --net` gives them.
"""

import ctypes
import fcntl
import heapq
import os
import random
import select
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_CLONE_NEWNET = 0x40000000
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
_MTU = 16_000
"""Larger than that of Ethernet, so that the switch forwards fewer packets."""
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Link:
    """One direction between two machines. `loss` is the part of the packets that are lost."""

    delay: float = 0.0
    loss: float = 0.0


CUT = Link(loss=1.0)


class Host:
    """A machine. `address` is its address for the others; each has a loopback interface of its own."""

    def __init__(self, number: int) -> None:
        """Raises OSError without the rights."""
        self.number, self.address = number, f"10.99.0.{number}"
        made: list[tuple[int, int]] = []
        failures: list[OSError] = []

        def create() -> None:
            # The namespace of a thread that ends is not that of the others.
            try:
                _check(_libc.unshare(_CLONE_NEWNET))
                namespace = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
                made.append((namespace, self._create_interface()))
            except OSError as error:
                failures.append(error)

        thread = threading.Thread(target=create)
        thread.start()
        thread.join()
        if failures:
            raise failures[0]
        self._namespace, self.interface = made[0]

    def _create_interface(self) -> int:
        interface = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(interface, _TUNSETIFF, struct.pack("16sH22x", b"net0", _IFF_TUN | _IFF_NO_PI))
        for command in (
            ("link", "set", "lo", "up"),
            ("address", "add", f"{self.address}/24", "dev", "net0"),
            ("link", "set", "net0", "up", "mtu", str(_MTU)),
        ):
            if subprocess.run(["ip", *command], capture_output=True).returncode:
                raise OSError(f"ip {' '.join(command)} failed")
        return interface

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Create the sockets and processes of this thread on this machine within the context."""
        before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        try:
            _check(_libc.setns(self._namespace, _CLONE_NEWNET))
            yield
        finally:
            _check(_libc.setns(before, _CLONE_NEWNET))
            os.close(before)

    def close(self) -> None:
        """Remove the interface. The namespace ends with its last process."""
        os.close(self.interface)
        os.close(self._namespace)


class Network:
    """A switch with machines, which count from 1."""

    def __init__(self, machines: int, seed: int) -> None:
        """Raises OSError without the rights."""
        self._chance = random.Random(seed)
        self.hosts: dict[int, Host] = {}
        self._links: dict[tuple[int, int], Link] = {}
        self._wake, self._end = os.pipe()
        self._thread = threading.Thread(target=self._forward, name="switch", daemon=True)
        try:
            for number in range(1, machines + 1):
                self.hosts[number] = Host(number)
        except BaseException:
            self._close_files()
            raise
        self._thread.start()

    @contextmanager
    def changed(self, link: Link, *pairs: tuple[int, int]) -> Iterator[None]:
        """Change links within the context. A pair is the sender and the receiver."""
        self._links = {**self._links, **dict.fromkeys(pairs, link)}
        try:
            yield
        finally:
            self._links = {pair: each for pair, each in self._links.items() if pair not in pairs}

    def _forward(self) -> None:
        """Forward packets until `close`."""
        interfaces = {host.interface: host.number for host in self.hosts.values()}
        delayed: list[tuple[float, int, int, bytes]] = []
        poller = select.poll()
        for file in (*interfaces, self._wake):
            poller.register(file, select.POLLIN)
        number = 0
        while True:
            timeout = max(0.0, delayed[0][0] - time.monotonic()) * 1000 if delayed else None
            for file, _ in poller.poll(timeout):
                if file == self._wake:
                    return
                for packet in _packets(file):
                    number += 1
                    if (due := self._route(interfaces[file], packet)) is not None:
                        heapq.heappush(delayed, (due, number, packet[19], packet))
            while delayed and delayed[0][0] <= time.monotonic():
                _, _, receiver, packet = heapq.heappop(delayed)
                _send(self.hosts[receiver].interface, packet)

    def _route(self, sender: int, packet: bytes) -> float | None:
        """Return the time at which to deliver a packet; None to drop it."""
        if packet[0] >> 4 != 4 or packet[19] not in self.hosts:
            return None
        link = self._links.get((sender, packet[19]), _WHOLE)
        if link.loss and self._chance.random() < link.loss:
            return None
        return time.monotonic() + link.delay

    def close(self) -> None:
        """Stop forwarding."""
        os.write(self._end, b".")
        self._thread.join()
        self._close_files()

    def _close_files(self) -> None:
        for host in self.hosts.values():
            host.close()
        os.close(self._wake)
        os.close(self._end)


_WHOLE = Link()


def _packets(interface: int) -> Iterator[bytes]:
    while True:
        try:
            yield os.read(interface, 1 << 16)
        except BlockingIOError:
            return


def _send(interface: int, packet: bytes) -> None:
    try:
        os.write(interface, packet)
    except BlockingIOError:  # A full queue loses packets.
        return


def _check(status: int) -> None:
    if status:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
