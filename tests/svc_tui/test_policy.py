import json
import time
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from engine.grant import Grant
from engine.timeline.database import timeline_path
from engine.timeline.record import PlatformRecord
from engine.timeline.recorder import TimelineStore
from engine.trace import Call
from svc_tui.main import run
from tests.engine.timeline.records import REQUEST

TEXT = """\
[project]
name = "shop"

[resource.front]
lane = "static"
output = "."
public = true
mounts = { "/api/*" = "api" }

[resource.api]
lane = "js"
egress = ["https://old.test", "https://*.wild.test"]

[resource.blog]
lane = "static"
output = "."
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "svc.toml").write_text(TEXT)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def record_denied_call(project: Path) -> None:
    now = time.time_ns()
    calls = (
        Call("fetch", "GET https://a.wild.test", 1),
        Call("fetch", "POST https://new.test:8443", 1, code="denied"),
        Call("sql", "select 1", 1),
    )
    events = [
        Grant.egress("api", "https://new.test:8443", "egress = [...]"),
        Grant.mount("front", "/blog/*", "blog"),
        Grant.mount("front", "/gone/*", "gone"),
        Grant("secret", "svc secret set KEY"),
    ]
    store = TimelineStore(timeline_path(project))
    records = [PlatformRecord(now, "api", "WARN", "denied", grant=grant) for grant in (*events, *events)]
    store.append([replace(REQUEST, time_ns=now, resource="api", calls=calls), *records], now)
    store.close()


def test_policy_suggest_prints_the_least_lines(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record_denied_call(project)
    assert run(["policy", "suggest"]) == 0
    text = capsys.readouterr().out
    assert tomllib.loads(text)["resource"] == {
        "api": {"egress": ["https://a.wild.test", "https://new.test:8443"]},
        "front": {"mounts": {"/api/*": "api", "/blog/*": "blog"}},
    }
    assert "# no calls: https://old.test\n" in text and "wild.test\n# no calls" not in text
    assert "# Callers requested these paths; a mount makes its resource reachable.\nmounts" in text
    assert text.endswith("# svc secret set KEY\n")


def test_policy_suggest_json_has_the_numbers_of_calls(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record_denied_call(project)
    assert run(["policy", "suggest", "--json", "--since", "1h"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["commands"] == ["svc secret set KEY"]
    assert document["resources"]["api"] == {
        "origins": {"https://a.wild.test": 1, "https://new.test:8443": 1},
        "denied": ["https://new.test:8443"],
        "unseen": ["https://old.test"],
        "mounts": {},
    }


def test_policy_suggest_refuses_an_invalid_age(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["policy", "suggest", "--since", "soon"]) == 2
    assert "not a valid time" in capsys.readouterr().err
    assert run(["policy", "suggest"]) == 1
    assert "no records yet" in capsys.readouterr().err
