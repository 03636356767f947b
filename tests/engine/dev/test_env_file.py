"""The file `.env`: its syntax, and which value wins."""

from pathlib import Path

import pytest

from engine.dev.env_file import MAX_BYTES, development_values, read_env
from engine.errors import SvcError


def test_file_has_comments_quotes_exports_and_values_of_several_lines(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_text(
        "\ufeff# values\n\nA=1\nexport B = two words  # a comment\nC='$A \"x\"'\n"
        'D="line\\none"\nE="-----BEGIN\r\nKEY-----"\r\nF=\nG=a#b\nH="é"\r\n',
        encoding="utf-8",
    )
    assert read_env(file) == {
        "A": "1",
        "B": "two words",
        "C": '$A "x"',
        "D": "line\none",
        "E": "-----BEGIN\nKEY-----",
        "F": "",
        "G": "a#b",
        "H": "é",
    }


@pytest.mark.parametrize(
    ("content", "message", "hint"),
    [
        (b"A=1\n\n\nnonsense here\n", ".env:4: not a variable", "NAME=value"),
        (b"A=1\nB\n", ".env:2: not a variable", "NAME=value"),
        (b"\nA='x\nB=1\n", ".env:2: not a variable", 'NAME="value"'),
        (b"A=1\nB-C=2\n", '.env:2: "B-C" is not a variable name', "letters"),
        (b"A=1\n# A\nA=2\n", ".env:3: A is set twice", "Remove one"),
        (b"A=a\0b\n", ".env:1: the value of A has a NUL", "Remove it"),
        (b"A=1\nB=\xff\n", ".env:2: the text is not UTF-8", "UTF-8"),
        (b"#" * (MAX_BYTES + 1), ".env is larger than 1 MiB", "right file"),
    ],
)
def test_bad_line_is_an_error_with_file_and_line(
    tmp_path: Path, content: bytes, message: str, hint: str
) -> None:
    (tmp_path / ".env").write_bytes(content)
    with pytest.raises(SvcError) as error:
        read_env(tmp_path / ".env")
    assert error.value.message.startswith(message) and hint in error.value.hint


def test_environment_wins_and_a_missing_file_has_no_values(tmp_path: Path) -> None:
    assert development_values(tmp_path, {"A": "1"}) == {"A": "1"}
    (tmp_path / ".env").write_text("A=2\nB=3\n")
    assert development_values(tmp_path, {"A": "1"}) == {"A": "1", "B": "3"}
    with pytest.raises(SvcError, match=r"cannot read .*other: No such file"):
        read_env(tmp_path / "other")
