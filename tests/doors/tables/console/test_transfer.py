"""Import and export over the control API."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from doors.tables.api import file_routes
from engine.errors import SvcError
from svc_tui.client import ApiError, Client
from tests.doors.tables.console.shop import Shop
from tests.support.waiting import until


def test_import_adds_rows_and_reports_progress(users: Shop) -> None:
    lines = users.load(b"id,name\n7,Alan\n8,Edsger\n", table="users")
    assert lines[-1] == {"done": True, "rows": 2, "bytes": 24, "total": 24, "table": "users", "skipped": []}
    assert all(not line["done"] for line in lines[:-1])
    assert users.get("table", name="users")["rows"] == 4
    users.load(b'[{"name": "Ada", "id": 1}]', "json", table="users", replace=True)
    assert users.query("select id, name from users")["rows"] == [{"id": 1, "name": "Ada"}]


def test_import_creates_table_only_with_create(shop: Shop) -> None:
    with pytest.raises(ApiError, match="table items does not exist") as exc_info:
        shop.load(b"id,price\n1,2.5\n", table="items")
    assert "--create" in exc_info.value.hint
    shop.load(b"id,price\n1,2.5\n", table="items", create=True)
    columns = [(each["name"], each["type"]) for each in shop.get("table", name="items")["columns"]]
    assert columns == [("id", "integer"), ("price", "real")]
    with pytest.raises(ApiError) as exc_info:
        shop.load(b"id,price\n1,2.5\n", table="items", create=True)
    assert exc_info.value.code == "conflict"


def test_late_import_failure_is_last_progress_line(shop: Shop) -> None:
    shop.change({"op": "create-table", "table": "t", "columns": [{"name": "n", "type": "integer"}]})
    text = b"n\n" + b"".join(b"%d\n" % number for number in range(50_000)) + b"many\n"
    with pytest.raises(ApiError, match="line 50002") as exc_info:
        shop.load(text, table="t")
    assert exc_info.value.code == "tables"
    assert shop.get("table", name="t")["rows"] == 0


def test_preview_infers_types_and_changes_nothing(shop: Shop) -> None:
    pieces = iter([b"id,when\n1,2026-01-02", b"T03:04:05Z\n"])
    path = "/v1/projects/shop/import/preview"
    (result,) = shop.client.lines("POST", path, params={"format": "csv"}, content=pieces)
    assert [(each["name"], each["type"]) for each in result["columns"]] == [
        ("id", "integer"),
        ("when", "timestamp"),
    ]
    assert (result["rows"], result["count"]) == ([["1", "2026-01-02T03:04:05Z"]], 1)
    assert shop.get("tables") == {"tables": []}


def preview_pasted(shop: Shop, text: str, **more: Any) -> Any:
    params = {"format": "tsv", **more}
    path = "/v1/projects/shop/import/preview"
    return shop.client.call("POST", path, params=params, content=iter([text.encode()]))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_preview_parses_pasted_spreadsheet_range(shop: Shop, end: str) -> None:
    result = preview_pasted(shop, end.join(['7\t"two\tcells, ""so"""', '5.5\t5" disk', "8\t", ""]))
    assert [each["type"] for each in result["columns"]] == ["real", "text"]
    assert result["rows"] == [["7", 'two\tcells, "so"'], ["5.5", '5" disk'], ["8", None]]
    assert (result["count"], result["header"]) == (3, False)


@pytest.mark.parametrize(
    ("text", "header", "named"),
    [
        ("name\tage\nAda\t36", "auto", True),
        ("Ada\t36\nGrace\t85", "auto", False),
        ("name\tname\nAda\tGrace", "auto", False),
        ("name\tage", "auto", False),
        ("1\t2\n3\t4", "yes", True),
        ("name\tage\nAda\t36", "no", False),
    ],
)
def test_preview_detects_header_row(shop: Shop, text: str, header: str, named: bool) -> None:
    result = preview_pasted(shop, text, header=header)
    first = text.splitlines()[0].split("\t")
    assert result["header"] == named
    assert [each["name"] for each in result["columns"]] == (first if named else ["column 1", "column 2"])
    assert result["count"] == len(text.splitlines()) - named


def test_preview_returns_requested_number_of_rows(shop: Shop) -> None:
    text = "".join(f"{number}\tx\n" for number in range(500))
    assert len(preview_pasted(shop, text)["rows"]) == 20
    assert len(preview_pasted(shop, text, rows=10_000)["rows"]) == 500
    assert preview_pasted(shop, text, rows=0)["rows"] == []
    with pytest.raises(ApiError, match="row 2: there are 3 cells"):
        preview_pasted(shop, "1\t2\n3\t4\t5\n")
    with pytest.raises(ApiError, match="the clipboard has no cells"):
        preview_pasted(shop, "")


def test_grid_export_applies_sort_and_filter_to_current_rows(shop: Shop) -> None:
    shop.query("create table marks (name text, mark integer)", write=True)
    shop.query("insert into marks values ('b', 2), ('a', 3), ('c', 1), ('a', 2)", write=True)
    above = {"column": "mark", "op": ">", "value": "1"}
    opened = shop.post("grid", {"table": "marks", "sort": [{"column": "name"}], "filter": [above]})
    shop.query("insert into marks values ('a', 9), ('z', 0)", write=True)
    path = f"/v1/projects/shop/grid/{opened['grid']}/export"
    with shop.client.download(path, params={"format": "csv"}) as pieces:
        assert b"".join(pieces) == b"name,mark\na,3\na,2\na,9\nb,2\n"
    with shop.client.download(path, params={"format": "jsonl"}) as pieces:
        assert [json.loads(line)["mark"] for line in b"".join(pieces).splitlines()] == [3, 2, 9, 2]
    for format in ("db", "sql"):
        with pytest.raises(ApiError), shop.client.download(path, params={"format": format}):
            pass
    shop.query("drop table marks", write=True)
    with pytest.raises(ApiError, match="marks"), shop.client.download(path, params={"format": "csv"}):
        pass


def test_client_disconnect_ends_export(shop: Shop) -> None:
    text = b"n,t\n" + b"".join(b"%d,%s\n" % (number, b"x" * 200) for number in range(60_000))
    shop.load(text, table="big", create=True)
    with shop.client.download("/v1/projects/shop/export", params={"format": "csv", "table": "big"}) as pieces:
        assert next(pieces).startswith(b"n,t\n")
    shop.change({"op": "drop-table", "table": "big"})
    assert shop.get("tables") == {"tables": []}


def test_interrupted_upload_changes_nothing(users: Shop, address: str) -> None:
    def interrupted_upload() -> Iterator[bytes]:
        yield b"id,name\n7,Alan\n"
        raise SvcError("the file ends here")

    with Client(address, "owner") as client, pytest.raises(SvcError, match="the file ends here"):
        Shop(client, users.data)
        list(
            client.lines(
                "POST", "/v1/projects/shop/import?format=csv&table=users", content=interrupted_upload()
            )
        )
    assert users.get("table", name="users")["rows"] == 2


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"format": "xls"}, "format"),
        ({"format": "csv", "tabel": "users"}, "tabel"),
        ({"format": "csv"}, "table"),
    ],
)
def test_invalid_import_parameters_are_refused(users: Shop, params: dict[str, str], words: str) -> None:
    with pytest.raises(ApiError, match=words):
        users.load(b"id,name\n", **{"format": "csv", **params})


@pytest.mark.parametrize(
    ("format", "tables", "words"),
    [
        ("csv", [], "one table"),
        ("csv", ["users", "users"], "one table"),
        ("json", ["nothing"], "table nothing does not exist"),
    ],
)
def test_invalid_export_is_refused_before_response_body(
    users: Shop, format: str, tables: list[str], words: str
) -> None:
    with pytest.raises(ApiError, match=words):
        users.save(format, *tables)


def refusal(users: Shop, table: str) -> str:
    """Import a row and return the message of the error, or an empty one."""
    try:
        users.load(b"name\nEve\n", table=table)
    except ApiError as error:
        return error.message
    return ""


def test_transfers_above_limit_are_refused(users: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_routes, "MAX_TRANSFERS", 1)
    begun, complete = threading.Event(), threading.Event()
    receive = file_routes._spool_body

    async def receiving(data: Path) -> Any:
        begun.set()
        return await receive(data)

    def slow_upload() -> Iterator[bytes]:
        yield b"name\n"
        complete.wait(300)
        yield b"Zoe\n"

    def import_slowly() -> None:
        path, params = "/v1/projects/shop/import", {"format": "csv", "table": "users"}
        list(users.client.lines("POST", path, params=params, content=slow_upload()))

    monkeypatch.setattr(file_routes, "_spool_body", receiving)
    upload = threading.Thread(target=import_slowly)
    upload.start()
    try:
        assert begun.wait(60)
        assert "1 imports and exports of the project" in refusal(users, "none")
        with pytest.raises(ApiError, match="1 imports and exports of the project") as exc_info:
            users.save("csv", "users")
        assert exc_info.value.code == "unavailable"
    finally:
        complete.set()
        upload.join()
    until(lambda: "does not exist" in refusal(users, "none"))
    until(lambda: not refusal(users, "users"))
