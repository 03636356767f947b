"""Timeline routes: windows of records, records by cursor, and filtered cursors."""

import asyncio
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from engine.control.local_server import serve_local
from engine.control.project_threads import PER_PROJECT
from engine.control.projects import SingleProject
from engine.control.routes import logs
from engine.timeline import sql
from engine.timeline.database import TIMELINE_FILE
from engine.timeline.record import LineRecord, PlatformRecord, Record, RequestRecord, StructuredRecord
from engine.timeline.recorder import Retention, TimelineStore
from svc_tui.background_loop import run_in_background
from svc_tui.client import ApiError, Client

SECOND = 1_000_000_000
NOW = 1_790_000_000 * SECOND
ROUNDS = 25
PLACE = "/v1/projects/shop/logs"
STRETCH = 7


def request(number: int, resource: str, **fields: Any) -> RequestRecord:
    front = resource == "web"
    values = {
        "span_id": "front" if front else "inner",
        "parent": "" if front else "front",
        "method": "POST",
        "target": f"/api/a?n={number}",
        "status": 500 if number % 10 == 3 else 201,
        "code": "guest-failed" if number % 10 == 3 and not front else "",
        "detail": "100% of_it" if number % 10 == 3 and not front else "",
        "root": front,
    } | fields
    metered: dict[str, Any] = {
        "wall_ns": 5,
        "compute_ns": 3,
        "peak_memory": None,
        "bytes_in": 1,
        "bytes_out": 2,
    }
    return RequestRecord(
        time_ns=NOW + number, request_id=f"r{number}", trace_id="t", resource=resource, **values, **metered
    )


def written(number: int) -> list[Record]:
    """Return the four records of one request: two spans and two lines."""
    return [
        LineRecord(NOW + number, f"r{number}", "api", "stdout", f"Ünder way {number}"),
        StructuredRecord(
            time_ns=NOW,
            request_id=f"r{number}",
            trace_id="t",
            span_id="inner",
            resource="api",
            severity="WARN",
            body="saved",
            attributes={"id": str(number), "mood": 'so "so"'},
        ),
        request(number, "api"),
        request(number, "web"),
    ]


class Shop:
    """A project's timeline, and a client that reads it over the control API."""

    def __init__(self, folder: Path, client: Client) -> None:
        self.path = folder / TIMELINE_FILE
        self.client = client

    def write(self, *records: Record, at_ns: int = NOW, retention: Retention | None = None) -> None:
        store = TimelineStore(self.path, retention or Retention(max_bytes=1 << 30, max_age_seconds=1e12))
        store.append(records, at_ns)
        store.trim(at_ns)
        store.close()

    def fill(self) -> int:
        """Write `ROUNDS` requests; return the first cursor."""
        self.write(*(record for number in range(ROUNDS) for record in written(number)))
        first: int = self.client.call("GET", f"{PLACE}/window", params={"n": 0})["first"]
        return first

    def places(self, path: str, **query: Any) -> list[int]:
        """Return the cursors of the records that are sent."""
        result = self.client.call("GET", f"{PLACE}/{path}", params=query)["records"]
        return [each["cursor"] for each in result]

    def cursors(self, **query: Any) -> list[int]:
        result: list[int] = []
        for line in islice(self.client.lines("GET", f"{PLACE}/cursors", params=query), 1, None):
            result += [line["after"] + offset for offset in line["offsets"]]
        return result


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    routes = logs.blueprint(SingleProject("shop", tmp_path), scan_records=STRETCH)
    with (
        run_in_background(lambda _: serve_local(tmp_path, [routes], announce=False), "control") as presence,
        Client(presence.url, presence.token) as client,
    ):
        yield Shop(tmp_path, client)


def test_sql_reads_the_views_of_the_timeline(shop: Shop) -> None:
    shop.fill()
    statement = "select status, count(*) as n from requests group by status order by status"
    answer = shop.client.call("POST", f"{PLACE}/sql", {"sql": statement, "limit": 1})
    assert answer["rows"] == [{"status": 201, "n": 22}]
    assert (answer["columns"][1]["name"], answer["truncated"]) == ("n", "rows")
    with pytest.raises(ApiError, match="exchange cannot be read"):
        shop.client.call("POST", f"{PLACE}/sql", {"sql": "select * from exchange"})


def test_client_disconnect_interrupts_sql(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.fill()
    monkeypatch.setattr(sql, "TIMEOUT_SECONDS", 3600)
    endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n"

    async def run(statement: str, seconds: float) -> Any:
        call = shop.client.cancelable("POST", f"{PLACE}/sql", {"sql": statement})
        return await asyncio.wait_for(call, seconds)

    for _ in range(PER_PROJECT):
        with pytest.raises(TimeoutError):
            asyncio.run(run(endless, 0.5))
    assert asyncio.run(run("select 1 as n", 60))["rows"] == [{"n": 1}]


FILTERS: list[tuple[dict[str, Any], list[int]]] = [
    ({}, list(range(100))),
    ({"resource": "web"}, list(range(3, 100, 4))),
    ({"level": "warn"}, sorted([*range(1, 100, 4), 14, 15, 54, 55, 94, 95])),
    ({"level": "ERROR"}, [14, 15, 54, 55, 94, 95]),
    ({"status": "500", "roots": True}, [15, 55, 95]),
    ({"status": "5xx", "resource": "api"}, [14, 54, 94]),
    ({"status": ">=400"}, [14, 15, 54, 55, 94, 95]),
    ({"status": ">=201", "roots": True}, list(range(3, 100, 4))),
    ({"request": "r7"}, [28, 29, 30, 31]),
    ({"text": "id=17"}, [17 * 4 + 1]),
    ({"text": "post /API/a?n=17"}, [17 * 4 + 2, 17 * 4 + 3]),
    ({"text": "100% of_it"}, [14, 54, 94]),
    ({"text": "1__%"}, []),
    ({"text": "Ünder way 24"}, [96]),
    ({"text": "500 guest-failed"}, [14, 54, 94]),
    ({"roots": True, "request": "r7"}, [28, 29, 31]),
]


@pytest.mark.parametrize(("query", "expected"), FILTERS)
def test_every_route_applies_same_filter(shop: Shop, query: dict[str, Any], expected: list[int]) -> None:
    first = shop.fill()
    passing = [first + each for each in expected]
    assert shop.cursors(**query) == passing
    assert shop.places("window", **query, after=0) == passing
    assert shop.places("window", **query, before=first + 50) == [
        each for each in passing if each < first + 50
    ]
    assert shop.places("window", **query, n=3) == passing[-3:]


def test_records_without_filter_are_selected_by_position(shop: Shop) -> None:
    first = shop.fill()
    bounds = shop.client.call("GET", f"{PLACE}/window", params={"n": 0})
    assert bounds == {"first": first, "last": first + 99, "records": []}
    assert shop.places("records", **{"from": first + 40, "n": 5}) == list(range(first + 40, first + 45))
    assert shop.places("records", **{"from": first + 98}) == [first + 98, first + 99]


def test_records_by_cursor_omit_removed_ones(shop: Shop) -> None:
    first = shop.fill()
    asked = ",".join(str(first + each) for each in (90, 3, 1000, -5, 40))
    assert shop.places("records", cursors=asked) == [first + 3, first + 40, first + 90]


def test_window_of_one_finds_next_and_previous_match(shop: Shop) -> None:
    first = shop.fill()
    assert shop.places("window", after=first + 15, level="error", n=1) == [first + 54]
    assert shop.places("window", before=first + 54, level="error", n=1) == [first + 15]
    assert shop.places("window", after=first + 28, request="r7", n=1) == [first + 29]
    assert shop.places("window", after=first + 95, level="error", n=1) == []


def test_request_includes_spans_of_mounts(shop: Shop) -> None:
    first = shop.fill()
    params = {"from": first + 4, "n": 4, "spans": True}
    line, second, inner, front = shop.client.call("GET", f"{PLACE}/records", params=params)["records"]
    assert [span["cursor"] for span in front.pop("spans")] == [inner["cursor"]]
    assert "spans" not in line | second | inner and front["resource"] == "web"


def test_cursors_are_streamed_in_stretches_newest_first_on_request(shop: Shop) -> None:
    first = shop.fill()
    head, *lines = shop.client.lines("GET", f"{PLACE}/cursors", params={"newest": True, "level": "error"})
    assert head == {"first": first, "last": first + 99}
    assert lines[0] == {"after": first + 97, "position": first + 99, "offsets": []}
    assert lines[1] == {"after": first + 90, "position": first + 97, "offsets": [4, 5]}
    assert [line["position"] - line["after"] for line in lines] == [2] + [STRETCH] * 14
    assert [line["after"] for line in lines[:-1]] == [line["position"] for line in lines[1:]]
    assert lines[-1]["after"] == first - 1


def test_cursors_resume_after_cursor(shop: Shop) -> None:
    first = shop.fill()
    assert shop.cursors(resource="web", after=first + 50) == [first + each for each in range(51, 100, 4)]
    assert shop.cursors(after=first + 99) == []


def test_frames_belong_to_the_error_of_their_request_between_records_of_others(shop: Shop) -> None:
    """Records of other requests, and of other nodes of a fleet, arrive at any time."""
    first = [("a", "Error: one"), ("b", "Error: two"), ("a", "  at x"), ("b", "  at y"), ("a", "  at z")]
    last = [("a", "other"), ("b", "  at w")]
    shop.write(*(LineRecord(NOW, request_id, "api", "stderr", text) for request_id, text in [*first, *last]))
    cursors = ",".join(map(str, shop.cursors(heads=True)))
    query = {"cursors": cursors, "heads": True}
    records = shop.client.call("GET", f"{PLACE}/records", params=query)["records"]
    assert [record["body"] for record in records] == [
        "Error: one\n  at x\n  at z",
        "Error: two\n  at y\n  at w",
        "other",
    ]


@pytest.mark.parametrize("newest", [False, True])
def test_follow_continues_with_new_records(shop: Shop, newest: bool) -> None:
    first = shop.fill()
    query = {"level": "error", "follow": True, "newest": newest}
    lines = shop.client.lines("GET", f"{PLACE}/cursors", params=query)
    assert next(line for line in lines if line.keys() == {"position"}) == {"position": first + 99}
    shop.write(*written(13))
    offsets = next(line for line in lines if "offsets" in line)
    assert [offsets["after"] + each for each in offsets["offsets"]] == [first + 102, first + 103]


def test_follow_waits_for_missing_timeline(shop: Shop) -> None:
    lines = shop.client.lines("GET", f"{PLACE}/cursors", params={"follow": True})
    assert next(lines) == {"first": 1, "last": 0}
    assert next(lines) == {"position": 0}
    shop.write(PlatformRecord(NOW, "web", "INFO", "built"))
    first_line = next(line for line in lines if "offsets" in line)
    assert first_line["offsets"] == [1] and first_line["position"] == first_line["after"] + 1


def test_follow_reports_removed_records(shop: Shop) -> None:
    first = shop.fill()
    lines = shop.client.lines("GET", f"{PLACE}/cursors", params={"follow": True, "after": first + 99})
    assert next(line for line in lines if line.keys() == {"position"}) == {"position": first + 99}
    later = NOW + 9 * SECOND
    shop.write(*(LineRecord(later, "", "web", "stdout", str(n)) for n in range(50_000)), at_ns=later)
    shop.write(
        LineRecord(later, "", "web", "stdout", "last"),
        at_ns=2 * later,
        retention=Retention(max_age_seconds=1.0),
    )
    while "dropped" not in (line := next(lines)):
        assert "error" not in line
    assert line["dropped"] > 0


def test_since_excludes_older_records(shop: Shop) -> None:
    first = shop.fill()
    assert shop.cursors(since=1.0) == [] and shop.places("window", since=1.0) == []
    assert shop.places("window", since=1e9, n=1) == [first + 99]


def test_until_excludes_newer_records(shop: Shop) -> None:
    first = shop.fill()
    shop.write(LineRecord(NOW, "", "web", "stdout", "new"), at_ns=time.time_ns())
    assert shop.cursors(until=30.0) == shop.cursors()[:-1] == sorted(shop.cursors(until=30.0, newest=True))
    assert shop.places("window", until=30.0, n=2) == [first + 98, first + 99]
    assert shop.places("window", until=30.0, after=first + 98) == [first + 99]
    assert shop.places("window", until=30.0, before=first + 1) == [first]
    assert shop.cursors(until=1e9) == [] and shop.cursors(since=90.0, until=80.0) == []
    assert len(shop.cursors(until=0)) == 4 * ROUNDS + 1


def test_follow_with_until_is_rejected(shop: Shop) -> None:
    with pytest.raises(ApiError, match="until"):
        next(shop.client.lines("GET", f"{PLACE}/cursors", params={"follow": True, "until": 5}))


def test_missing_timeline_returns_no_records(shop: Shop) -> None:
    assert shop.client.call("GET", f"{PLACE}/window") == {"first": 1, "last": 0, "records": []}
    assert shop.places("records", **{"from": 5}) == [] and shop.cursors() == []


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("window", {"after": 1, "before": 9}),
        ("window", {"level": "loud"}),
        ("window", {"status": "4"}),
        ("window", {"n": 1001}),
        ("window", {"text": ""}),
        ("records", {}),
        ("records", {"from": 1, "cursors": "2"}),
        ("records", {"cursors": "1,x"}),
        ("records", {"cursors": ",".join(["7"] * 501)}),
        ("cursors", {"status": "666"}),
    ],
)
def test_invalid_parameters_are_rejected(shop: Shop, path: str, query: dict[str, Any]) -> None:
    with pytest.raises(ApiError) as exc_info:
        shop.client.call("GET", f"{PLACE}/{path}", params=query)
    assert exc_info.value.code == "invalid"
