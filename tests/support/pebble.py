"""Pebble, a certificate authority for tests, and a DNS server that resolves every name to 127.0.0.1.

Both are built by Go, once. Tests are skipped where that is not possible.
"""

import json
import os
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import httpx
import pytest
from cryptography import x509

from engine.certificates.settings import AcmeSettings
from tests.support.certificates import self_signed
from tests.support.go_cache import go_build_cache

MODULE = "github.com/letsencrypt/pebble/v2/cmd"
VERSION = "v2.10.3"
BLOCKED = "blocked.example"
"""The authority refuses orders with this name and those below it."""
PROGRAMS = ("pebble", "pebble-challtestsrv")


def build(cache: Path) -> Path:
    """Return the folder of the programs; skip the test where they cannot be built."""
    folder = cache / f"pebble-{VERSION}"
    if all((folder / name).exists() for name in PROGRAMS):
        return folder
    if (go := shutil.which("go")) is None:
        pytest.skip("Pebble needs Go, which is not installed")
    environment = os.environ | {"GOBIN": str(folder), "GOCACHE": str(go_build_cache(cache))}
    names = [f"{MODULE}/{name}@{VERSION}" for name in PROGRAMS]
    done = subprocess.run([go, "install", *names], env=environment, capture_output=True, text=True, cwd="/")
    if done.returncode:
        pytest.skip(f"Pebble cannot be built: {done.stderr[-200:]}")
    return folder


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Pebble:
    """An authority that checks challenges at port `http_port`. It can be stopped and started again."""

    def __init__(
        self, programs: Path, folder: Path, *, lifetime: int = 90 * 86400, dns: str = "", address: str = ""
    ) -> None:
        """It resolves names by the server `dns` if it is given; else all names have the address."""
        self._programs, self._folder = programs, folder
        folder.mkdir(parents=True)
        self.http_port, self._port, self._management, own = (free_port() for _ in range(4))
        self._dns = dns or f"127.0.0.1:{own}"
        self._has_stub, self._address = not dns, address or "127.0.0.1"
        self.chain, self.key = self_signed(folder)
        config = {
            "listenAddress": f"127.0.0.1:{self._port}",
            "managementListenAddress": f"127.0.0.1:{self._management}",
            "certificate": str(self.chain),
            "privateKey": str(self.key),
            "httpPort": self.http_port,
            "domainBlocklist": [BLOCKED],
            "tlsPort": 1,
            "retryAfter": {"authz": 1, "order": 1},
            "profiles": {"default": {"description": "default", "validityPeriod": lifetime}},
        }
        (folder / "config.json").write_text(json.dumps({"pebble": config}))
        self._running: list[subprocess.Popen[bytes]] = []

    @property
    def settings(self) -> AcmeSettings:
        return AcmeSettings("ann@example.com", f"https://127.0.0.1:{self._port}/dir", str(self.chain))

    def start(self, **environment: str) -> None:
        """Start it, as a new authority without accounts and orders."""
        variables = os.environ | {"PEBBLE_VA_NOSLEEP": "1", "PEBBLE_AUTHZREUSE": "0"} | environment
        stubs = [f"-{name}=" for name in ("doh", "http01", "https01", "tlsalpn01", "defaultIPv6")]
        stubs += [f"-dnsserver={self._dns}", f"-defaultIPv4={self._address}"]
        commands = [
            ["pebble", "-strict", f"-config={self._folder / 'config.json'}", f"-dnsserver={self._dns}"]
        ]
        if self._has_stub:
            self._names = f"127.0.0.1:{free_port()}"
            commands.append(["pebble-challtestsrv", *stubs, f"-management={self._names}"])
        for command in commands:
            program = [str(self._programs / command[0]), *command[1:]]
            with (self._folder / f"{command[0]}.log").open("ab") as log:
                self._running.append(
                    subprocess.Popen(program, env=variables, stdout=log, stderr=log, cwd=self._folder)
                )
        until = time.monotonic() + 60
        while time.monotonic() < until:
            try:
                self.get("/roots/0")
                return
            except httpx.TransportError:
                time.sleep(0.05)
        raise AssertionError((self._folder / "pebble.log").read_text())

    def get(self, path: str) -> str:
        """Return what the management interface answers."""
        return httpx.get(f"https://127.0.0.1:{self._management}{path}", verify=False, timeout=60).text

    def root(self) -> str:
        """Return the root certificate of issued ones, as PEM. Each start makes a new one."""
        return self.get("/roots/0")

    def resolve(self, address: str) -> None:
        """Set the address of all names."""
        httpx.post(
            f"http://{self._names}/set-default-ipv4", json={"ip": address}, timeout=60
        ).raise_for_status()

    def resolve_one(self, name: str, address: str) -> None:
        """Set the address of one name."""
        record = {"host": f"{name}.", "addresses": [address]}
        httpx.post(f"http://{self._names}/add-a", json=record, timeout=60).raise_for_status()

    def revoke(self, chain: str, key: str) -> None:
        """Revoke a certificate by the ACME API, with its own key."""
        from acme.client import ClientNetwork, ClientV2
        from josepy.jwa import ES256
        from josepy.jwk import JWK

        net = ClientNetwork(JWK.load(key.encode()), alg=ES256, verify_ssl=self.settings.ca_file)  # type: ignore[arg-type]
        client = ClientV2(ClientV2.get_directory(self.settings.directory, net), net)
        client.revoke(x509.load_pem_x509_certificate(chain.encode()), 0)

    def stop(self) -> None:
        for process in self._running:
            process.kill()
            process.wait()
        self._running.clear()

    def log(self) -> str:
        return (self._folder / "pebble.log").read_text()


@contextmanager
def authority(
    cache: Path, folder: Path, *, lifetime: int = 90 * 86400, dns: str = "", address: str = ""
) -> Iterator[Pebble]:
    """Yield an authority that runs."""
    pytest.importorskip("acme", reason="acme is not installed (extra acme)")
    pebble = Pebble(build(cache), folder, lifetime=lifetime, dns=dns, address=address)
    try:
        pebble.start()
        yield pebble
    finally:
        pebble.stop()


Answer = tuple[int, Mapping[str, str], bytes]
"""Status, fields and body."""


@contextmanager
def proxied(pebble: Pebble, answer: Callable[[str], Answer | None]) -> Iterator[AcmeSettings]:
    """Yield an authority in front of a real one, which answers a path itself if `answer` returns something.

    The real one gets the same host name, so that its URLs and signatures are those of this one.
    """
    upstream = pebble.settings.directory.removesuffix("/dir")
    client = httpx.Client(verify=False, timeout=60)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None: ...

        def forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            own = answer(self.path)
            status, fields, text = own or self.ask(body)
            if own is not None:
                nonce = client.head(f"{upstream}/nonce-plz").headers["replay-nonce"]
                fields = {"replay-nonce": nonce, **fields}
            self.send_response(status)
            for name, value in {**fields, "content-length": str(len(text))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(text)

        def ask(self, body: bytes) -> Answer:
            sent = {name: self.headers[name] for name in ("host", "content-type") if name in self.headers}
            response = client.request(self.command, upstream + self.path, headers=sent, content=body)
            names = ("content-type", "location", "replay-nonce", "link", "retry-after")
            fields = {name: response.headers[name] for name in names if name in response.headers}
            return response.status_code, fields, response.content

        do_GET = do_HEAD = do_POST = forward

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pebble.chain, pebble.key)
    with client, ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield replace(pebble.settings, directory=f"https://127.0.0.1:{server.server_port}/dir")
        server.shutdown()
