"""The plan of a statement (`EXPLAIN QUERY PLAN`) as an indented tree. Pure."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from screens.widgets.columns import sanitize
from screens.widgets.row_source import Line, Tone

_EXPLAIN = re.compile(r"\s*explain\b", re.IGNORECASE)
_INDEXED = re.compile(r"\bUSING\b")


def explain_sql(statement: str) -> str:
    """Return the statement that explains another one."""
    return statement if _EXPLAIN.match(statement) else f"EXPLAIN QUERY PLAN {statement}"


def plan_lines(rows: Sequence[Mapping[str, Any]]) -> list[Line]:
    """Return the steps of a plan. Scans of whole tables and temporary sorts have a warning color."""
    depths: dict[int, int] = {0: -1}
    lines: list[Line] = []
    for row in rows:
        depth = depths[row["id"]] = depths.get(row["parent"], -1) + 1
        detail = sanitize(str(row["detail"]))
        branch = f"{'  ' * (depth - 1)}└ " if depth else ""
        lines.append([(branch, "dim"), (detail, _tone(detail))])
    return lines


def _tone(detail: str) -> Tone:
    if detail.startswith("SEARCH") or (detail.startswith("SCAN") and _INDEXED.search(detail)):
        return "good"
    return "warn" if detail.startswith(("SCAN", "USE TEMP B-TREE")) else ""
