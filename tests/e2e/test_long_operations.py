"""Operations and statements that take minutes, beside other projects of a service and at its end."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from wasmtime import wat2wasm

from tests.conformance.guest import Guest
from tests.support.service import Server, environ_of, login, prepare, run_process

pytestmark = pytest.mark.slow
RUN_LIMIT = 300
MANIFEST = """\
[project]
name = "{}"

[resource.api]
lane = "rust"
public = true
build = "true"
output = "guest.wasm"
run_limit_secs = {}
"""
SCRYPT = {
    "algorithm": "scrypt",
    "key": "eA==",
    "salt": "eQ==",
    "n": 2,
    "r": 1,
    "p": 400_000,
    "length": 65_536,
}
"""More than a minute of CPU time on a fast processor."""
REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "first": ("/v1/derive", SCRYPT),
    "second": ("/v1/derive", SCRYPT),
    "accounts": ("/v1/password/hash", {"password": "secret"}),
}
NUMBERS = "with recursive n(i) as (select 1 union all select i + 1 from n)"
STATEMENTS = [
    f"{NUMBERS} select count(*) as n from n",
    f"{NUMBERS} select json_group_array(i) as n from n",
    f"{NUMBERS} select i from n order by -i",
    f"{NUMBERS} select sum(instr(x, y)) as n from n,"
    " (select hex(zeroblob(20000)) as x, hex(zeroblob(10000)) || 1 as y)",
]
TABLES = """\
create table note (id integer primary key);
create virtual table texts using fts5(text);
insert into texts values (replace(hex(zeroblob(240000)), '00', 'a '));
"""
STATEMENTS.append(
    "select count(*) as n from texts('NEAR(' || replace(hex(zeroblob(300)), '00', 'a ') || ', 9999999)')"
)
END_SECONDS = 20.0
"""Far below the limits of the statements, above the end of a service without requests."""


def project(root: Path, path: str, members: dict[str, Any], door: str = "crypto") -> Path:
    """Create a project whose guest calls a Door, and answers after it."""
    guest = Guest()
    guest.call("ask", door, path, json.dumps(members))
    guest.answer(b"done")
    root.mkdir()
    (root / "svc.toml").write_text(MANIFEST.format(root.name, RUN_LIMIT))
    (root / "guest.wasm").write_bytes(bytes(wat2wasm(guest.text())))
    return root


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    environ = environ_of(tmp_path / "home")
    server = Server(tmp_path / "data", environ, "--grace", "2")
    try:
        for number, (name, (path, members)) in enumerate(REQUESTS.items()):
            root = project(tmp_path / name, path, members)
            if not number:
                login(server, root, environ)
            prepare(root, environ, "deploy")
        yield server
    finally:
        server.process.kill()
        server.process.communicate()


def ask(server: Server, name: str) -> int:
    host = {"host": f"api--{name}.localhost"}
    return httpx.get(f"http://127.0.0.1:{server.port}/", headers=host, timeout=RUN_LIMIT).status_code


def test_long_operations_leave_time_to_others_and_end_with_the_service(server: Server) -> None:
    with ThreadPoolExecutor(2) as threads:
        assert ask(server, "accounts") == 200
        long = [threads.submit(ask, server, name) for name in ("first", "second")]
        assert [ask(server, "accounts") for _ in range(5)] == [200] * 5
        assert not any(each.done() for each in long)
        server.process.terminate()
        server.process.wait(timeout=60)
        for each in long:
            each.exception()


@pytest.mark.parametrize(
    "sql",
    [
        STATEMENTS[1],
        *(pytest.param(sql, marks=pytest.mark.nightly) for sql in STATEMENTS if sql != STATEMENTS[1]),
    ],
)
def test_statements_end_with_the_service(tmp_path: Path, sql: str) -> None:
    environ = environ_of(tmp_path / "home")
    server = Server(tmp_path / "data", environ, "--grace", "2")
    try:
        root = project(tmp_path / "shop", "/v1/query", {"sql": sql}, "tables")
        (root / "tables").mkdir()
        (root / "tables" / "1.sql").write_text(TABLES)
        login(server, root, environ)
        prepare(root, environ, "deploy")
        with ThreadPoolExecutor(4) as threads:
            asking = [threads.submit(ask, server, "shop") for _ in range(2)]
            asking += [
                threads.submit(run_process, root, environ, "tables", "--service", "query", sql)
                for _ in range(2)
            ]
            time.sleep(1.5)
            assert not any(each.done() for each in asking)
            server.process.terminate()
            server.process.wait(timeout=END_SECONDS)
            for each in asking:
                each.exception()
    finally:
        server.process.kill()
        server.process.communicate()
