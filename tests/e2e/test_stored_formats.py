"""The formats of a data directory belong to the version of its layout: an older svc refuses a newer one."""

import json
import os
import re
import sqlite3
from contextlib import closing
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from doors.tables.replication.copy import CREATE
from engine.bucket import layout
from engine.fleet.node import FORMAT, NODE_FILE, FleetNode
from tests.support.service import Server, environ_of, login, prepare, static_project

pytestmark = pytest.mark.slow
GOLDEN = Path(__file__).with_name("stored_formats.json")
MIGRATION = "CREATE TABLE t (id INTEGER PRIMARY KEY)"


def describe(value: Any) -> Any:
    """Return the shape of a JSON value. Keys that contain digits or are names of the test become `*`."""
    match value:
        case dict():
            names = {"*" if re.search(r"[0-9]", key) or key in NAMES else key: value[key] for key in value}
            return {key: describe(each) for key, each in sorted(names.items())}
        case list():
            return [describe(each) for each in value[:1]]
        case _:
            return type(value).__name__


DOMAIN = "shop.example.invalid"
NAMES = {"ann", "ci", "gone", "shop", "web", "KEY", "0001-t.sql", DOMAIN}


def database(path: Path) -> dict[str, str]:
    """Return the definitions of a database file, and the version that svc gave it."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        found = connection.execute("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name")
        return {**dict(found), "user_version": str(connection.execute("PRAGMA user_version").fetchone()[0])}


def values(path: Path) -> dict[str, Any]:
    """Return the shapes of the values of a service, by the kind of their key."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        found = connection.execute("SELECT key, value FROM cell ORDER BY key").fetchall()
    shapes: dict[str, dict[str, Any]] = {}
    for key, value in found:
        if value:
            shape = describe(json.loads(value))
            shapes.setdefault(key.partition("/")[0], {})[json.dumps(shape)] = shape
    return {kind: [each for _, each in sorted(some.items())] for kind, some in shapes.items()}


def test_change_of_what_is_stored_raises_the_version_of_the_layout(tmp_path: Path) -> None:
    project, environ = static_project(tmp_path / "shop"), environ_of(tmp_path / "home")
    with (project / "svc.toml").open("a") as manifest:
        manifest.write(f'domains = ["{DOMAIN}"]\n')
    (project / "tables").mkdir()
    (project / "tables" / "0001-t.sql").write_text(MIGRATION)
    data = tmp_path / "data"
    server = Server(data, environ)
    try:
        login(server, project, environ)
        prepare(project, environ, "deploy", "--json")
        prepare(project, environ, "token", "create", "ci")
        prepare(project, environ, "secret", "set", "KEY", text="value")
        prepare(project, environ, "quota", "set", "shop", "--storage", "100")
        prepare(project, environ, "quota", "set", "gone", "--storage", "100")
        prepare(project, environ, "projects", "remove", "gone", "--yes")
        server.get()
    finally:
        server.stop()
    formats = {
        "values": values(data / layout.CONTROL),
        **{path.name: database(path) for path in sorted(data.rglob("*.db"))},
        "position in the log": CREATE,
        NODE_FILE: sorted(field.name for field in fields(FleetNode)),
    }
    described = {"versions": [layout.CURRENT, FORMAT], "formats": formats}
    golden = json.loads(GOLDEN.read_text())
    if os.environ.get("SVC_WRITE_SNAPSHOTS") and described["versions"] > golden["versions"]:
        GOLDEN.write_text(json.dumps(described, indent=1) + "\n")
        return
    if described != golden:
        pytest.fail(
            "the stored formats changed: raise CURRENT in engine/bucket/layout.py and have folders of the"
            f" version before upgraded, or raise FORMAT for {NODE_FILE}; then write {GOLDEN.name} with"
            " SVC_WRITE_SNAPSHOTS=1"
        )
