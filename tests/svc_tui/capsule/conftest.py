from pathlib import Path

import pytest

from doors.tables.sqlite.connections import open_owner
from doors.tables.sqlite.owner import database_path
from engine.files.data_dir import DATA_DIR
from tests.svc_tui.capsule.recorded_shop import PASSWORD, SECRET, TOKEN
from tests.svc_tui.hosted import static_shop


@pytest.fixture
def shop(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a recorded request that changed a row."""
    monkeypatch.setenv("PAYMENT", SECRET)
    root = static_shop(tmp_path / "shop ü")
    with (root / "svc.toml").open("a") as manifest:
        manifest.write(f'secrets = ["PAYMENT"]\nenv = {{ DB_PASSWORD = "{PASSWORD}" }}\n')
    path = database_path(root / DATA_DIR)
    path.parent.mkdir(parents=True)
    connection = open_owner(path)
    connection.execute(
        "create table users"
        " (id integer primary key, name, auth_token text unique check (auth_token like 'tok%'))"
    )
    connection.execute("insert into users values (1, 'new', ?), (2, 'bob', 'tok-of-bob')", [TOKEN])
    connection.close()
    monkeypatch.chdir(root)
    return root
