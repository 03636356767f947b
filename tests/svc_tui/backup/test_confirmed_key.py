"""`svc backup confirm-key`, and the warning of `svc backup status` before it was run."""

import json
import time
from pathlib import Path

import pytest

from engine.bucket.folder import FolderBucket
from engine.service.secrets import KEY_FILE, SecretsKey
from svc_tui.backup.restore import text
from svc_tui.main import run
from tests.svc_tui.backup.test_tables import KEY, Service

WARNING = "no copy of the key was confirmed"


@pytest.fixture
def url(tmp_path: Path) -> str:
    service = Service(tmp_path)
    service.write("create table item (id integer primary key)")
    service.ship()
    return service.store.url


def key_file(folder: Path, key: SecretsKey) -> str:
    folder.mkdir(exist_ok=True)
    (folder / KEY_FILE).write_text(key.text)
    return str(folder / KEY_FILE)


def confirmed(url: str, key: str, capsys: pytest.CaptureFixture[str]) -> bool:
    capsys.readouterr()
    assert run(["backup", "status", url, "--key", key, "--json"]) == 0
    moment = json.loads(capsys.readouterr().out)["key_confirmed"]
    assert run(["backup", "status", url, "--key", key]) == 0
    assert (WARNING in capsys.readouterr().err) == (moment is None)
    return moment is not None


def test_copy_of_the_key_is_confirmed(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = key_file(tmp_path / "safe", KEY)
    assert not confirmed(url, copy, capsys)
    for _ in range(2):
        assert run(["backup", "confirm-key", url, "--key", copy]) == 0
        assert confirmed(url, copy, capsys)
    marks = [each for each in (tmp_path / "store" / "confirmed").rglob("0*") if each.is_file()]
    assert len(marks) == 1
    newer = SecretsKey.parse(SecretsKey.create().text + KEY.text)
    assert not confirmed(url, key_file(tmp_path / "newer", newer), capsys)


def test_status_shows_when_something_was_last_stored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    service = Service(tmp_path)
    service.write("create table item (id integer primary key)")
    service.ship()
    service.write("insert into item values (1)")
    time.sleep(1.1)
    before = text(time.time_ns())
    service.ship()  # After the store was silent, for example.
    key = key_file(tmp_path / "safe", KEY)
    assert run(["backup", "status", service.store.url, "--key", key, "--json"]) == 0
    [project] = json.loads(capsys.readouterr().out)["projects"]
    assert project["stored"] >= before > project["since"]


def test_backup_whose_service_is_lost_or_damaged_is_verified(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key, marker = key_file(tmp_path / "safe", KEY), tmp_path / "store" / "service"
    marker.write_bytes(marker.read_bytes()[:-1])
    assert run(["backup", "verify", url, "--key", key]) == 1
    assert "service of the backup at" in capsys.readouterr().out
    marker.unlink()
    assert run(["backup", "status", url, "--key", key]) == run(["backup", "verify", url, "--key", key]) == 0


def test_url_without_a_backup_is_refused(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key, above = key_file(tmp_path / "safe", KEY), url.rpartition("/")[0]
    for command in ("status", "verify"):
        assert run(["backup", command, above, "--key", key]) == 1
        assert f"{above} has no backup of a service\n  hint: Check the URL." in capsys.readouterr().err


def test_other_keys_are_not_confirmed(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = key_file(tmp_path / "other", SecretsKey.create())
    new = str(tmp_path / "new")
    for command in (["confirm-key", url], ["status", url], ["verify", url], ["--from", url, "--data", new]):
        words = ["restore"] if command[0] == "--from" else ["backup"]
        assert run([*words, *command, "--key", other]) == 1
        output = capsys.readouterr()
        assert not output.out and output.err.startswith("error: service of the backup at")
        assert "is sealed with another key\n  hint: Pass the secrets.key of the service" in output.err
    FolderBucket(tmp_path / "data2")
    own = key_file(tmp_path / "data2", KEY)
    (tmp_path / "link").symlink_to(own)
    for path in (own, str(tmp_path / "link")):
        assert run(["backup", "confirm-key", url, "--key", path]) == 2
        assert "is in the data directory of a service" in capsys.readouterr().err
    assert run(["backup", "confirm-key", url, "--key", str(tmp_path / "none")]) == 2
    assert not confirmed(url, key_file(tmp_path / "safe", KEY), capsys)
