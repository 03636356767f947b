"""Knot, a DNS server for tests, with a zone that accepts updates (RFC 2136).

Its Debian packages are unpacked once, without an installation. Tests are skipped where that is not possible.
"""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import dns.exception
import dns.message
import dns.query
import dns.resolver
import pytest

from tests.support.waiting import until

PACKAGES = (
    "knot", "libknot13", "libdnssec9", "libzscanner4", "liburcu8", "liblmdb0", "libxdp1", "libfstrm0",
)  # fmt: skip
SECRET = "c3ZjIHRlc3RzIHVwZGF0ZSB0aGlzIHpvbmUgd2l0aCBpdA=="
ZONE = "example.com"
_CONFIG = """
server:
    listen: {address}@{port}
    rundir: {folder}
    pidfile: {folder}/knot.pid
database:
    storage: {folder}
log:
  - target: stderr
    any: info
key:
  - id: svc
    algorithm: hmac-sha256
    secret: {secret}
acl:
  - id: update
    key: svc
    action: update
zone:
"""
_ZONE = """
  - domain: {zone}
    storage: {folder}
    acl: update
    zonefile-sync: -1
"""
_RECORDS = """
$ORIGIN {zone}.
$TTL 60
@ SOA ns hostmaster 1 3600 600 86400 60
@ NS ns
ns A {address}
apps A 127.0.0.1
*.apps A 127.0.0.1
shop A 127.0.0.1
"""


@dataclass(frozen=True, slots=True)
class Knot:
    """A running server."""

    address: str
    port: int

    def texts(self, name: str) -> set[str]:
        """Return the TXT records of a name."""
        answer = dns.query.tcp(dns.message.make_query(name, "TXT"), self.address, timeout=60, port=self.port)
        return {b"".join(row.strings).decode() for each in answer.answer for row in each}

    def environ(self) -> dict[str, str]:
        """Return the credentials of its zone."""
        return {
            "LEXICON_RFC2136_SERVER": f"{self.address}:{self.port}",
            "LEXICON_RFC2136_AUTH_TOKEN": f"hmac-sha256:svc:{SECRET}",
        }


def unpack(cache: Path) -> tuple[str, dict[str, str]]:
    """Return the program and its environment; skip the test where it cannot be had."""
    if (program := shutil.which("knotd")) is not None:
        return program, dict(os.environ)
    folder = cache / "knot"
    if not folder.exists():
        if None in (shutil.which("apt-get"), shutil.which("dpkg")):
            pytest.skip("this test needs knot (Debian: apt install knot)")
        partial = cache / f"knot-{os.getpid()}"
        partial.mkdir()
        done = subprocess.run(
            ["apt-get", "download", *PACKAGES], cwd=partial, capture_output=True, text=True, check=False
        )
        for package in sorted(partial.glob("*.deb")) if not done.returncode else ():
            subprocess.run(["dpkg", "-x", str(package), str(partial / "root")], check=True)
            package.unlink()
        if done.returncode:
            shutil.rmtree(partial)
            pytest.skip(f"knot cannot be downloaded: {done.stderr[-200:]}")
        try:
            partial.rename(folder)
        except OSError:  # Another process was faster.
            shutil.rmtree(partial)
    libraries = next((folder / "root" / "usr" / "lib").glob("*-linux-*"))
    return str(folder / "root" / "usr" / "sbin" / "knotd"), os.environ | {"LD_LIBRARY_PATH": str(libraries)}


@contextmanager
def name_server(
    cache: Path, folder: Path, *, port: int = 0, zone: str = ZONE, records: str = "", other: str = ""
) -> Iterator[Knot]:
    """Yield a server of a zone, which this process resolves names by within the context.

    The zone has the `records`, too, and the server the zone `other`. Port 53 is that of an address of its
    own, so several tests can use it at once.
    """
    program, environ = unpack(cache)
    address = f"127.53.{os.getpid() >> 8 & 255}.{os.getpid() & 255}" if port == 53 else "127.0.0.1"
    with socket.socket() as probe:
        try:
            probe.bind((address, port))
        except OSError as error:
            pytest.skip(f"no server can be at {address}, port {port}: {error.strerror}")
        knot = Knot(address, int(probe.getsockname()[1]))
    folder.mkdir()
    values = {"address": address, "port": knot.port, "folder": folder, "secret": SECRET, "zone": zone}
    config = _CONFIG.format_map(values)
    for name, more in {zone: records, **({other: ""} if other else {})}.items():
        config += _ZONE.format_map(values | {"zone": name})
        (folder / f"{name}.zone").write_text(_RECORDS.format_map(values | {"zone": name}) + more)
    (folder / "knot.conf").write_text(config)
    with (folder / "knot.log").open("wb") as log:
        process = subprocess.Popen(
            [program, "-c", str(folder / "knot.conf")], env=environ, stderr=log, stdout=log
        )
    resolver = dns.resolver.Resolver(configure=False)
    resolver.nameservers, resolver.port = [address], knot.port

    def answers() -> bool:
        assert process.poll() is None, (folder / "knot.log").read_text()
        try:
            resolver.resolve(zone, "SOA", lifetime=0.5)
        except dns.exception.DNSException:
            return False
        return True

    try:
        until(answers)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(dns.resolver, "default_resolver", resolver)
            yield knot
    finally:
        process.kill()
        process.wait()
