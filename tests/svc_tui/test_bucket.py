"""`svc bucket` on data directories."""

import asyncio
import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from engine.bucket.folder import FolderBucket
from engine.fleet.node import NODE_FOLDER, NodeAddress, found_node
from svc_tui import main
from svc_tui.serve.storage import open_bucket
from tests.support.blobs import put


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory with a blob, a value and the tables of a project."""

    async def fill() -> None:
        bucket = FolderBucket(tmp_path / "data ü")
        await put(bucket.blobs, b"content")
        await bucket.kv.cas("accounts/ann", b"{}", None)
        await bucket.aclose()

    asyncio.run(fill())
    tables = tmp_path / "data ü" / "projects" / "shop" / "tables"
    tables.mkdir(parents=True)
    with closing(sqlite3.connect(tables / "tables.db")) as connection:
        connection.executescript("create table entries (text); insert into entries values ('one')")
    return tmp_path / "data ü"


def test_copy_has_the_blobs_values_and_tables_and_can_be_repeated(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command, source, target in (
        ("backup", data, "backup"),
        ("restore", tmp_path / "backup", "restored"),
        ("migrate", tmp_path / "restored", "moved"),
        ("migrate", tmp_path / "restored", "moved"),
    ):
        assert main.run(["bucket", command, str(source), str(tmp_path / target), "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert (document["values"], document["blobs"], document["projects_with_tables"]) == (1, 1, 1)
    assert document["skipped_blobs"] == 1
    assert main.run(["bucket", "verify", str(tmp_path / "moved")]) == 0
    assert capsys.readouterr().out == "verified 1 values, 1 blobs, 7 B, tables of 1 project\n"
    path = tmp_path / "moved" / "projects" / "shop" / "tables" / "tables.db"
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("select text from entries").fetchall() == [("one",)]


def test_verify_names_corrupt_blobs_and_tables(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blob = next(path for path in (data / "blobs").iterdir())
    blob.chmod(0o644)
    blob.write_bytes(b"other")
    tables = data / "projects" / "shop" / "tables" / "tables.db"
    tables.write_bytes(tables.read_bytes()[:4096] + b"damaged" * 1000)
    assert main.run(["bucket", "verify", str(data)]) == 1
    printed = capsys.readouterr()
    assert re.search(rf"^corrupt  blob sha256:{blob.name}", printed.out, re.M)
    assert "corrupt  tables of shop" in printed.out
    assert "has 2 missing or corrupt objects" in printed.err


def test_folder_that_is_no_bucket_or_is_both_ends_is_refused(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["bucket", "verify", str(tmp_path / "other")]) == 1
    assert f"{tmp_path / 'other'} is not a bucket" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()
    assert main.run(["bucket", "migrate", str(data), str(data)]) == 2
    assert "is both source and target" in capsys.readouterr().err


def test_bucket_of_a_node_whose_fleet_does_not_serve_is_its_folder(data: Path) -> None:
    found_node(data / NODE_FOLDER, NodeAddress("10.0.0.1"))

    async def open_it() -> None:
        async with open_bucket(data, "a test") as bucket:
            assert isinstance(bucket, FolderBucket)

    asyncio.run(open_it())
