import time
from pathlib import Path

import pytest

from doors.tables.replication.entry import Origin
from doors.tables.sqlite.owner import open_for_writing
from engine.files.data_dir import DATA_DIR
from tests.svc_tui.capsule.recorded_shop import ID, NOW, PASSWORD, SECRET, TOKEN
from tests.svc_tui.hosted import static_shop


@pytest.fixture
def shop(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a recorded request that changed a row."""
    monkeypatch.setenv("PAYMENT", SECRET)
    root = static_shop(tmp_path / "shop ü")
    with (root / "svc.toml").open("a") as manifest:
        manifest.write(f'secrets = ["PAYMENT"]\nenv = {{ DB_PASSWORD = "{PASSWORD}" }}\n')
    with monkeypatch.context() as earlier, open_for_writing(root / DATA_DIR) as connection:
        earlier.setattr(time, "time_ns", lambda: NOW - 1)
        connection.execute("begin immediate")
        connection.execute(
            "create table users"
            " (id integer primary key, name, auth_token text unique check (auth_token like 'tok%'))"
        )
        connection.execute("insert into users values (1, 'old', ?), (2, 'bob', 'tok-of-bob')", [TOKEN])
        connection.execute("commit")
    with open_for_writing(root / DATA_DIR, origin=Origin("request", requests=[ID])) as connection:
        connection.execute("begin immediate")
        connection.execute("update users set name = 'new' where id = 1")
        connection.execute("commit")
    monkeypatch.chdir(root)
    return root
