"""The nginx configuration of the guide, in a real nginx."""

import asyncio
import re
import shutil
from ipaddress import ip_network
from pathlib import Path

import httpx
import pytest

from engine.gateway.client_address import behind_proxies
from engine.http.exchange import Exchange
from engine.http.sockets import bind
from tests.engine.uploading import handled

PAGE = Path(__file__).resolve().parents[2] / "docs/guides/operate/reverse-proxy.md"
SPOOFED = {
    "X-Forwarded-For": "9.9.9.9",
    "X-Forwarded-Proto": "gopher",
    "X-Forwarded-Host": "evil.example",
    "X-Real-IP": "9.9.9.9",
    "Forwarded": "for=9.9.9.9",
}
CONFIGURATION = """
daemon off;
pid {folder}/pid;
error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder};
    proxy_temp_path {folder};
    server {{
        listen 127.0.0.1:{port};
        location /secret {{ internal; return 200 secret; }}
        {location}
    }}
}}
"""


@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")
def test_nginx_of_the_guide_ignores_redirects_of_guests_and_replaces_headers(tmp_path: Path) -> None:
    block = re.search(r"    location / \{.*?\n    \}\n", PAGE.read_text(), re.DOTALL)
    assert block is not None
    received: list[dict[bytes, bytes]] = []
    clients: list[tuple[str, int] | None] = []

    async def guest(exchange: Exchange) -> None:
        received.append(dict(exchange.request.headers))
        clients.append(exchange.request.client)
        await exchange.send_head(200, [(b"x-accel-redirect", b"/secret"), (b"content-length", b"5")])
        await exchange.send_body(b"guest", end=True)

    async def main() -> str:
        with bind("127.0.0.1", 0)[0] as free:
            port = free.getsockname()[1]
        proxied = behind_proxies(guest, (ip_network("127.0.0.1"),))
        async with handled(proxied) as (upstream, _):
            location = block[0].replace("127.0.0.1:8080", f"127.0.0.1:{upstream}")
            (tmp_path / "conf").write_text(
                CONFIGURATION.format(folder=tmp_path, port=port, location=location)
            )
            options = ("-p", str(tmp_path), "-c", str(tmp_path / "conf"))
            process = await asyncio.create_subprocess_exec("nginx", *options)
            try:
                async with httpx.AsyncClient(timeout=30, trust_env=False) as client:
                    while True:
                        try:
                            return (await client.get(f"http://127.0.0.1:{port}/", headers=SPOOFED)).text
                        except httpx.ConnectError:
                            assert process.returncode is None
                            await asyncio.sleep(0.05)
            finally:
                process.terminate()
                await process.wait()

    assert asyncio.run(main()) == "guest"
    (fields,), (client,) = received, clients
    assert client == ("127.0.0.1", 0)
    assert fields[b"x-forwarded-for"] == fields[b"x-real-ip"] == b"127.0.0.1"
    assert fields[b"x-forwarded-proto"] == b"http" and b"forwarded" not in fields
    assert fields[b"x-forwarded-host"] == fields[b"host"]
