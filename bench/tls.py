"""Requests a second over TLS of a js hello, and handshakes a second, against a bare Hypercorn.

Requests: 16 connections with keep-alive. Handshakes: four clients, each with a new connection for each
request. Both sides have the same certificate with a P-256 key. Rounds are interleaved, so that both see the
same machine; the median of their ratios counts.
"""

import os
import socket
import ssl
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from bench.hello import WEB, rate, write_project
from bench.processes import bare_hypercorn, write_results
from bench.service import hosted
from tests.support.certificates import self_signed

ROUNDS = 5
SECONDS = 3
CLIENTS = 4
HOST = WEB.partition("/")[0]


def handshakes(port: int) -> float:
    """Connect and request without end for one round; return the answers a second."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    request = f"GET / HTTP/1.1\r\nhost: {HOST}\r\nconnection: close\r\n\r\n".encode()
    began = time.perf_counter()

    def run(_client: int) -> int:
        count = 0
        while time.perf_counter() < began + SECONDS:
            with (
                socket.create_connection(("127.0.0.1", port)) as plain,
                context.wrap_socket(plain, server_hostname=HOST) as secure,
            ):
                secure.sendall(request)
                assert secure.recv(4096).startswith(b"HTTP/1.1 200")
            count += 1
        return count

    with ThreadPoolExecutor(CLIENTS) as clients:
        count = sum(clients.map(run, range(CLIENTS)))
    return count / (time.perf_counter() - began)


def main() -> None:
    found: dict[str, list[float]] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="svc-bench-")))
        certificate, key = map(str, self_signed(folder))
        os.environ["SSL_CERT_FILE"] = certificate
        service = hosted(write_project(folder, "js"), "--tls-cert", certificate, "--tls-key", key)
        ports = {
            "bare": stack.enter_context(bare_hypercorn("bench.bare", certificate, key)),
            "svc": stack.enter_context(service),
        }
        for number in range(ROUNDS):
            for name, port in ports.items():
                found.setdefault(f"{name}_requests", []).append(rate(port, path=f"https://{WEB}"))
                found.setdefault(f"{name}_handshakes", []).append(handshakes(port))
            text = "  ".join(f"{name} {values[-1]:.0f}/s" for name, values in found.items())
            print(f"round {number + 1}: {text}", flush=True)
    ratios = {
        kind: median(
            ours / bare for ours, bare in zip(found[f"svc_{kind}"], found[f"bare_{kind}"], strict=True)
        )
        for kind in ("requests", "handshakes")
    }
    write_results("tls", {**ratios, **{name: median(values) for name, values in found.items()}})
    print("tls", *(f"{kind}={ratio:.3f}" for kind, ratio in ratios.items()), "of bare hypercorn")


if __name__ == "__main__":
    main()
