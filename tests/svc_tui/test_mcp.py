"""`svc mcp` as a process, with the client of the SDK over stdin and stdout."""

import asyncio
import json
import sys
import tempfile
from collections.abc import Awaitable, Callable
from importlib import import_module, util
from pathlib import Path
from typing import Any

import httpx
import pytest

from engine.errors import SvcError
from engine.timeline.database import timeline_path
from engine.timeline.recorder import TimelineStore
from svc_tui.main import run
from tests.engine.timeline.records import BEGAN, LINE, REQUEST
from tests.support.dev_server import dev_server
from tests.support.service import environ_of
from tests.support.waiting import until
from tests.svc_tui.hosted import Hosted, deploy, static_shop

pytestmark = pytest.mark.skipif(util.find_spec("mcp") is None, reason="mcp is not installed (extra mcp)")
READING: dict[str, dict[str, Any]] = {
    "manifest": {},
    "state": {},
    "logs_sql": {"sql": "select * from requests"},
    "request": {"request_id": "01id"},
    "tables_list": {},
    "tables_query": {"sql": "select count(*) as n from note"},
}
"""Tools that clients may call without asking, and arguments of theirs."""
ACTING = {"plan", "replay"}
Call = Callable[..., Awaitable[Any]]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = static_shop(tmp_path / "shop")
    store = TimelineStore(timeline_path(root))
    store.append([LINE, REQUEST], BEGAN)
    store.close()
    return root


def talk(root: Path, test: Callable[[Any, Call], Awaitable[None]], *options: str, **environ: str) -> None:
    """Run a test with a client of `svc mcp` in a folder, and a function that calls a tool.

    The function returns the document of the result, or the text of an error.
    """
    mcp: Any = import_module("mcp")  # It would take half a second in every process that collects tests.
    environment = environ_of(Path(tempfile.mkdtemp(dir=root.parent)) / "home")
    parameters = mcp.StdioServerParameters(
        command=sys.executable,
        args=["-m", "svc_tui", "mcp", *options],
        env={**environment, **environ},
        cwd=root,
    )

    async def main() -> None:
        async with mcp.stdio_client(parameters) as streams, mcp.ClientSession(*streams) as session:
            await session.initialize()

            async def call(tool: str, **arguments: Any) -> Any:
                result = await session.call_tool(tool, arguments)
                text = result.content[0].text
                return text if result.is_error else json.loads(text)

            await test(session, call)

    asyncio.run(main())


def test_tools_read_and_errors_have_hints(project: Path) -> None:
    async def test(session: Any, call: Call) -> None:
        tools = {tool.name: tool for tool in (await session.list_tools()).tools}
        assert set(tools) == {*READING, *ACTING}
        assert {name for name, tool in tools.items() if tool.annotations.read_only_hint} == READING.keys()
        assert all(tool.description for tool in tools.values())
        manifest = await call("manifest")
        assert manifest["project"] == "shop" and manifest["resources"][0]["lane"] == "static"
        found = await call("logs_sql", sql="select path, status from requests")
        assert found == {"rows": [{"path": "/a", "status": 200}], "truncated": None}
        records = (await call("request", request_id="01id"))["records"]
        assert [record["kind"] for record in records] == ["stdout", "request"]
        assert "no request nothing" in await call("request", request_id="nothing")
        assert "svc dev does not run in this project\nStart it" in await call("state")
        assert "not a SELECT" in await call("logs_sql", sql="delete from record")
        assert "logged in" in await call("plan")
        assert "Unknown tool" in await call("tables_execute", sql="create table t (a)")
        (project / "svc.toml").write_text("[project]\nname = 3\n")
        assert "project.name" in await call("manifest")

    talk(project, test)


def test_tables_are_read_only_unless_writes_are_allowed(project: Path) -> None:
    async def write(session: Any, call: Call) -> None:
        tools = {tool.name: tool for tool in (await session.list_tools()).tools}
        assert not tools["tables_execute"].annotations.read_only_hint
        await call("tables_execute", sql="create table note (id integer primary key, text text)")
        await call("tables_execute", sql="insert into note (text) values ($1), ($2)", values=["a", None])

    async def read(session: Any, call: Call) -> None:
        assert [table["name"] for table in (await call("tables_list"))["tables"]] == ["note"]
        rows = (await call("tables_query", sql="select text from note where id = $1", values=[1]))["rows"]
        assert rows == [{"text": "a"}]
        limited = await call("tables_query", sql="select id from note", limit=1)
        assert len(limited["rows"]) == 1 and limited["truncated"]
        assert "the statement writes" in (refused := await call("tables_query", sql="delete from note"))
        assert "`--allow-writes` to `svc mcp`" in refused
        assert (await call("tables_query", sql="select count(*) as n from note"))["rows"] == [{"n": 2}]
        assert isinstance(await call("logs_sql", sql="select 1", limit=0), str)

    talk(project, write, "--allow-writes")
    talk(project, read)


def files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_tools_that_only_read_change_no_file_and_run_no_command(project: Path) -> None:
    """The build command would leave a file, as any change of a table would."""

    async def write(_session: Any, call: Call) -> None:
        await call("tables_execute", sql="create table note (id integer primary key, text text)")

    async def read(session: Any, call: Call) -> None:
        before = files(project)
        for tool in (await session.list_tools()).tools:
            if tool.annotations.read_only_hint:
                await call(tool.name, **READING[tool.name])
                assert files(project) == before, tool.name
        assert isinstance(await call("plan"), str)
        assert (project / "built").exists()

    manifest = project / "svc.toml"
    manifest.write_text(
        manifest.read_text().replace('lane = "static"', 'lane = "static"\nbuild = "touch built"')
    )
    talk(project, write, "--allow-writes")
    talk(project, read, SVC_URL="http://127.0.0.1:9", SVC_TOKEN="svc_x")


def test_large_ids_and_results_are_errors_with_a_hint(project: Path) -> None:
    async def test(_session: Any, call: Call) -> None:
        for tool in ("request", "replay"):
            assert "at most 100 characters" in await call(tool, request_id="x" * 70_000)
        result = await call("tables_query", sql="select hex(zeroblob(1000000)) as value")
        assert "the limit is 1 MiB" in result and "substr" in result

    talk(project, test)


@pytest.mark.slow
def test_state_and_replay_work_on_svc_dev(tmp_path: Path) -> None:
    root = static_shop(tmp_path / "shop")
    with dev_server(root, tmp_path / "home") as server:
        got = httpx.get(f"{server.url}/", params={"n": 1}, timeout=60)
        posted = httpx.post(f"{server.url}/", timeout=60)
        ids = got.headers["x-request-id"], posted.headers["x-request-id"]

        async def test(session: Any, call: Call) -> None:
            state = await call("state")
            assert state["kind"] == "dev" and state["resources"][0]["state"] == "ready"
            both = {}

            async def recorded(id_: str) -> Any:
                for _ in range(600):
                    both[id_] = await call("replay", request_id=id_)
                    if "not found" not in str(both[id_]) and "not recorded" not in str(both[id_]):
                        break
                    await asyncio.sleep(0.1)
                return both[id_]

            replayed = await recorded(ids[0])
            assert replayed["recorded"]["request"]["target"] == "/?n=1"
            assert replayed["replayed"]["response"]["status"] == 200
            assert "is a POST request, which may change data" in await recorded(ids[1])
            for path in ("../tables", f"{ids[0]}/replay", f"{ids[0]}?a=1", f"{ids[0]}#a"):
                assert isinstance(await call("replay", request_id=path), str), "it is not an id, but a path"

        talk(root, test)


def test_service_tools_use_the_session(tmp_path: Path) -> None:
    root = static_shop(tmp_path / "shop")
    with Hosted(tmp_path / "data") as hosted, hosted.claim() as client:
        deploy(client, root)
        assert hosted.get().text == "one"
        sql = {"sql": "select count(*) as n from requests"}
        until(lambda: _rows(client, sql) == [{"n": 1}])
        (root / "site" / "index.html").write_text("two")

        async def test(session: Any, call: Call) -> None:
            names = {tool.name for tool in (await session.list_tools()).tools}
            assert names == {*READING, "plan"}
            assert (await call("state"))["kind"] == "service"
            assert (await call("logs_sql", **sql))["rows"] == [{"n": 1}]
            plan = await call("plan")
            assert plan["live"] and [change["resource"] for change in plan["changes"]] == ["web"]

        talk(root, test, "--service", SVC_URL=hosted.control, SVC_TOKEN=hosted.token)


def _rows(client: Any, sql: dict[str, str]) -> Any:
    try:
        return client.call("POST", "/v1/projects/shop/logs/sql", sql)["rows"]
    except SvcError:  # The timeline has no tables yet.
        return None


def test_missing_package_names_the_extra(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(project)
    found = util.find_spec
    monkeypatch.setattr("svc_tui.commands.dev.find_spec", lambda name: None if name == "mcp" else found(name))
    assert run(["mcp"]) == 1
    assert "pip install 'svc-tui[mcp]'" in capsys.readouterr().err
