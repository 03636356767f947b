"""`svc logs --request ID --tree`."""

from dataclasses import replace
from pathlib import Path

import pytest

from engine.trace import Call
from svc_tui.main import run
from tests.svc_tui.test_logs import INNER, LINE, ROOT, lines, project, record

__all__ = ["project"]


def test_logs_tree_prints_spans_and_calls(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    query = Call(
        "sql", "select 1", 1_000_000, wall_ns=2_000_000, status=200, details={"params": 0, "rows": 1}
    )
    record(project, LINE, replace(INNER, span_id="1" * 16, calls=(query,)), ROOT)
    title, _, _, front, api, call, *_, line = lines(capsys, "--request", "01id", "--tree")
    assert title == "GET /api/x?y=1"
    assert front.startswith("web ") and api.startswith("└ api ") and call.startswith("  └ select 1 ")
    assert "2.0 ms" in call and "1 row" in call and line.endswith("hello")
    for options in (["--tree"], ["--tree", "--request", "01id", "--json"]):
        assert run(["logs", *options]) == 2
