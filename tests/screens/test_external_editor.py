from pathlib import Path

import pytest

from screens.files import edit_file, edit_text
from svc_tui.client import SvcError


@pytest.fixture
def bin_folder(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    return tmp_path / "bin"


@pytest.mark.parametrize(
    ("editor", "arguments"),
    [("vi", "+37\n{file}\n"), ("nano", "+37\n{file}\n"), ("code", "-g\n{file}:37\n"), ("hx", "{file}:37\n")],
)
def test_edit_file_passes_the_line_as_each_editor_takes_it(
    bin_folder: Path, tmp_path: Path, editor: str, arguments: str
) -> None:
    script = bin_folder / editor
    script.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > "{tmp_path}/arguments"\n')
    script.chmod(0o755)
    file = tmp_path / "a b.js"
    edit_file(file, 37, [str(script)])
    assert (tmp_path / "arguments").read_text() == arguments.format(file=file)


@pytest.mark.parametrize(
    ("text", "written", "result"),
    [
        ("a", "b\\n", "b"),
        ("a\r\nb", "a\\r\\nc\\r\\n", "a\r\nc"),
        ("a\r\nb", "a\\r\\nb\\r\\n", None),
        ("a\r\n", "b\\r\\n", "b\r\n"),
        ("a\n", "b\\n", "b\n"),
    ],
)
def test_edit_text_removes_the_final_newline_that_an_editor_adds(
    bin_folder: Path, text: str, written: str, result: str | None
) -> None:
    script = bin_folder / "editor"
    script.write_text(f"#!/bin/sh\nprintf '{written}' > \"$1\"\n")
    script.chmod(0o755)
    assert edit_text(text, "cell.txt", [str(script)]) == result


def test_edit_file_with_a_failing_or_missing_editor_raises_error(bin_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(SvcError, match="failed with status 1"):
        edit_file(tmp_path, 1, ["false"])
    with pytest.raises(SvcError, match="cannot be run"):
        edit_file(tmp_path, 1, [str(bin_folder / "none")])
