"""Capsules that are damaged, tampered with, hostile, or from another version."""

import hashlib
import io
import json
import struct
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.errors import SvcError
from svc_tui.capsule import container
from svc_tui.capsule.container import HEAD, CapsuleError, read_container, write_container
from svc_tui.main import run

MEMBERS: dict[str, bytes | Path] = {"svc.toml": b"[project]\n", "a/b.bin": bytes(range(256)) * 40}


def capsule(path: Path, members: dict[str, bytes | Path] | None = None) -> Path:
    with write_container({"project": "shop"}, members or MEMBERS) as file:
        path.write_bytes(file.read())
    return path


def rewritten(path: Path, change: Callable[[dict[str, bytes]], None]) -> Path:
    """Change the members of a capsule, without changing their digests."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def with_head(**changes: Any) -> Callable[[dict[str, bytes]], None]:
    def change(members: dict[str, bytes]) -> None:
        members[HEAD] = json.dumps({**json.loads(members[HEAD]), **changes}).encode()

    return change


def listed(name: str, data: bytes = b"x") -> Callable[[dict[str, bytes]], None]:
    """Return the change that adds a member with its correct digest."""

    def change(members: dict[str, bytes]) -> None:
        head = json.loads(members[HEAD])
        head["members"][name] = [hashlib.sha256(data).hexdigest(), len(data)]
        members |= {HEAD: json.dumps(head).encode(), name: data}

    return change


def refused(path: Path, folder: Path) -> CapsuleError:
    folder.mkdir(exist_ok=True)
    with pytest.raises(CapsuleError) as raised:
        read_container(path, folder)
    assert raised.value.hint
    return raised.value


def test_members_are_returned_exactly(tmp_path: Path) -> None:
    large = tmp_path / "large"
    large.write_bytes(b"\r\n\0\xff" * 700_000)
    path = capsule(tmp_path / "x.svccap", {**MEMBERS, "large": large})
    folder = tmp_path / "out"
    folder.mkdir()
    result = read_container(path, folder)
    assert {name: result.bytes(name) for name in MEMBERS} == MEMBERS
    assert result.bytes("large") == large.read_bytes() and result.head["project"] == "shop"
    assert capsule(tmp_path / "y.svccap", {**MEMBERS, "large": large}).read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda members: members.update({"svc.toml": b"[prOject]\n"}), "svc.toml differs from its digest"),
        (lambda members: members.update({"svc.toml": b"[project]\n\n"}), "svc.toml differs from its digest"),
        (lambda members: members.pop("svc.toml"), "'svc.toml'"),
        (lambda members: members.update(extra=b""), "'extra'"),
        (lambda members: members.pop(HEAD), "it has no capsule.json"),
        (lambda members: members.update({HEAD: b"{"}), "capsule.json is invalid"),
        (lambda members: members.update({HEAD: b"[" * 100_000}), "capsule.json is invalid"),
        (with_head(format="zip"), "capsule.json is invalid"),
        (with_head(members=[]), "capsule.json is invalid"),
        (with_head(members={"svc.toml": ["0" * 64, -1]}), "capsule.json is invalid"),
        (with_head(members={"svc.toml": ["0" * 63, 1]}), "an invalid name or digest: 'svc.toml'"),
        (listed("../outside"), "an invalid name or digest: '../outside'"),
        (listed("/tmp/outside"), "an invalid name or digest"),
        (listed("a/../../outside"), "an invalid name or digest"),
        (listed("a\\..\\outside"), "an invalid name or digest"),
        (listed("a//b"), "an invalid name or digest"),
        (listed(".hidden"), "an invalid name or digest"),
        (listed("a/\u202ename"), "an invalid name or digest"),
    ],
)
def test_changed_capsule_is_refused(
    tmp_path: Path, change: Callable[[dict[str, bytes]], None], reason: str
) -> None:
    path = rewritten(capsule(tmp_path / "x.svccap"), change)
    error = refused(path, tmp_path / "out")
    assert reason in error.message and str(path) in error.message
    assert {each.name for each in tmp_path.iterdir()} == {"x.svccap", "out"}


@pytest.mark.parametrize(("version", "hint"), [(2, "Update svc."), (0, "Use the svc that made it.")])
def test_capsule_of_another_version_is_refused(tmp_path: Path, version: int, hint: str) -> None:
    error = refused(rewritten(capsule(tmp_path / "x"), with_head(version=version)), tmp_path / "out")
    assert f"has version {version} of the format, and this svc reads 1" in error.message
    assert (error.code, error.hint) == ("capsule-version", hint)


def test_member_that_unpacks_to_more_than_its_size_is_not_unpacked(tmp_path: Path) -> None:
    def bomb(members: dict[str, bytes]) -> None:
        members["svc.toml"] = bytes(64 << 20)

    path = rewritten(capsule(tmp_path / "x"), bomb)
    assert path.stat().st_size < 1 << 20
    assert "svc.toml differs from its digest" in refused(path, tmp_path / "out").message
    assert (tmp_path / "out" / "svc.toml").stat().st_size <= 2 << 20


def test_capsule_that_announces_too_much_is_refused(tmp_path: Path) -> None:
    sizes = {f"m{number}": ["0" * 64, 100 << 20] for number in range(6)}
    path = rewritten(capsule(tmp_path / "x"), with_head(members=sizes))
    assert (error := refused(path, tmp_path / "out")).code == "too-large"
    assert "more than 512 MiB when unpacked" in error.message


def test_document_above_limit_is_not_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "out").mkdir()
    opened = read_container(capsule(tmp_path / "x", {"a.json": b"[" + b"1," * 100 + b"1]"}), tmp_path / "out")
    assert len(opened.json("a.json")) == 101
    monkeypatch.setattr(container, "MAX_DOCUMENT_BYTES", 100)
    with pytest.raises(CapsuleError, match=r"a\.json is larger than"):
        opened.json("a.json")


def test_two_members_of_one_name_are_refused(tmp_path: Path) -> None:
    path = capsule(tmp_path / "x")
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning):
        archive.writestr("svc.toml", b"[project]\n")
    assert "two files of one name" in refused(path, tmp_path / "out").message


def test_directory_with_too_many_entries_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = capsule(tmp_path / "x")
    data = bytearray(path.read_bytes())
    struct.pack_into("<HH", data, data.rfind(b"PK\5\6") + 8, 60_000, 60_000)
    path.write_bytes(data)
    assert "more than 10,000 files" in refused(path, tmp_path / "out").message


def test_zip64_directory_is_refused_before_it_is_read(tmp_path: Path) -> None:
    """Its end record has larger numbers than the usual one, which readers then ignore."""
    count = 200_000
    fields = (20, 3, 20, 0, 0, 0, 0, 33, 0, 0, 0, 1, *[0] * 6)
    directory = struct.pack("<4s4B4HL2L5H2L", b"PK\1\2", *fields) + b"x"
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, len(directory), 0, 0)
    size = count * len(directory)
    end64 = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, count, count, size, 0)
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, size, 1)
    path = tmp_path / "x"
    path.write_bytes(directory * count + end64 + locator + end)
    began = time.process_time()
    assert "zip64" in refused(path, tmp_path / "out").message
    assert time.process_time() - began < 1


@pytest.mark.parametrize("content", [b"", b"PK", b"not a zip" * 100, b"PK\5\6" + bytes(18)])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    assert "not a valid capsule" in refused(path, tmp_path / "out").message


def test_truncated_or_damaged_capsule_is_refused_at_every_length(tmp_path: Path) -> None:
    content = capsule(tmp_path / "whole").read_bytes()
    for length in range(0, len(content), 7):
        path = tmp_path / f"x{length}"
        path.write_bytes(content[:length])
        refused(path, tmp_path / f"out{length}")
    for at in range(len(content)):
        path = tmp_path / "damaged"
        path.write_bytes(content[:at] + bytes([content[at] ^ 0x5A]) + content[at + 1 :])
        folder = tmp_path / f"damaged{at}"
        folder.mkdir()
        try:
            read_container(path, folder)
        except SvcError as error:
            assert isinstance(error, CapsuleError)


@pytest.mark.parametrize("names", [("a", "a/b"), ("a/b", "a"), ("a", "a/b/c")])
def test_file_in_the_place_of_a_folder_is_refused(tmp_path: Path, names: tuple[str, str]) -> None:
    path = capsule(tmp_path / "x", dict.fromkeys(names, b"x"))
    assert "has the place of another file or its folder" in refused(path, tmp_path / "out").message


def test_encrypted_members_and_other_methods_are_refused(tmp_path: Path) -> None:
    path = rewritten(capsule(tmp_path / "x"), lambda members: None)
    data = bytearray(path.read_bytes())
    at = data.rfind(b"PK\1\2")
    data[at + 8] |= 1
    path.write_bytes(data)
    refused(path, tmp_path / "out")
    with zipfile.ZipFile(capsule(tmp_path / "y")) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_LZMA) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    (tmp_path / "y").write_bytes(buffer.getvalue())
    assert "compressed by a method" in refused(tmp_path / "y", tmp_path / "out2").message


def test_too_large_capsule_is_neither_written_nor_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = capsule(tmp_path / "x")
    monkeypatch.setattr(container, "MAX_FILE_BYTES", path.stat().st_size - 1)
    assert refused(path, tmp_path / "out").code == "too-large"
    with pytest.raises(CapsuleError, match="more than") as raised:
        write_container({"project": "shop"}, MEMBERS)
    assert "no --with-artifacts" in raised.value.hint


def test_commands_report_missing_files_and_folders(
    tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in (tmp_path / "missing", tmp_path):
        for command in ("open", "show"):
            assert run(["capsule", command, str(path)]) == 1
            assert f"error: {'cannot read ' if path != tmp_path else ''}{path}" in capsys.readouterr().err
