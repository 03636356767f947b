"""Files that are small and would take much memory or time to read."""

import io
import json
import tracemalloc

import pytest

from doors.tables.files import json_file
from doors.tables.files.format import MAX_RECORD
from doors.tables.sqlite.errors import TablesError
from doors.tables.types.infer import preview, preview_pasted


def wide(format: str, columns: int) -> str:
    names = [f"c{number}" for number in range(columns)]
    match format:
        case "csv":
            return ",".join(names) + "\n"
        case "tsv":
            return "\t".join(names) + "\n"
    return "\n".join(json.dumps({name: 1}) for name in names)


@pytest.mark.parametrize("format", ["csv", "jsonl", "tsv"])
def test_preview_of_too_many_columns_is_refused(format: str) -> None:
    def count(columns: int) -> int:
        source = io.BytesIO(wide(format, columns).encode())
        result = preview_pasted(source, "no", 1) if format == "tsv" else preview(source, format)  # type: ignore[arg-type]
        return len(result.columns)

    assert count(2000) == 2000
    with pytest.raises(TablesError, match="the file has more than 2000 columns"):
        count(2001 if format == "jsonl" else 500_000)


def test_json_row_is_not_parsed_again_for_each_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts: list[int] = []
    scan = json_file._scan
    monkeypatch.setattr(json_file, "_scan", lambda text, at: attempts.append(at) or scan(text, at))
    text = "x" * (MAX_RECORD - 100)
    assert preview(io.BytesIO(json.dumps([{"name": text}]).encode()), "json").rows == ((text,),)
    assert len(attempts) < 12


def test_pasted_range_is_read_in_bounded_memory() -> None:
    count = 1 << 13
    source = io.BytesIO(b"\n" * count)
    tracemalloc.start()
    assert preview_pasted(source, "auto", 10).count == count
    assert tracemalloc.get_traced_memory()[1] < 16 * count  # A list of the rows takes 64 bytes for each.
    tracemalloc.stop()
