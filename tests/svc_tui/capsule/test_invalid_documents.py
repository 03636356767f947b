"""Capsules with correct digests and invalid parts."""

import hashlib
import json
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.errors import SvcError
from engine.stepwise_json import dump_verbatim
from svc_tui.capsule import replay
from svc_tui.capsule.container import read_capsule
from svc_tui.capsule.format import capsule_lines, documents
from svc_tui.main import run
from tests.engine.wasm import text_guest
from tests.svc_tui.capsule.recorded_shop import ID, members, record, write
from tests.svc_tui.hosted import MANIFEST


def changed(part: str, change: Callable[[Any], None]) -> Callable[[dict[str, bytes]], None]:
    def apply(parts: dict[str, bytes]) -> None:
        document = json.loads(parts[part])
        change(document)
        parts[part] = json.dumps(document).encode()

    return apply


BAD: dict[str, tuple[Callable[[dict[str, bytes]], None], str]] = {
    "no exchange": (lambda parts: parts.pop("exchange.json") and None, "it has no exchange.json"),
    "no manifest": (lambda parts: parts.pop("svc.toml") and None, "it has no svc.toml"),
    "exchange is not JSON": (
        lambda parts: parts.update({"exchange.json": b"{"}),
        "exchange.json is not JSON",
    ),
    "deep exchange": (
        lambda parts: parts.update({"exchange.json": b"[" * 99_999}),
        "exchange.json is not JSON",
    ),
    "list": (lambda parts: parts.update({"exchange.json": b"[]"}), "exchange.json: "),
    "newline in a field": (
        changed("exchange.json", lambda e: e["request"]["headers"].append(["x", "a\r\nb: c"])),
        "exchange.json: request.headers",
    ),
    "space in a name": (
        changed("exchange.json", lambda e: e["request"]["headers"].append(["x y", ""])),
        "exchange.json: request.headers",
    ),
    "target": (changed("exchange.json", lambda e: e["request"].update(target="http://x")), "request.target"),
    "method": (changed("exchange.json", lambda e: e["request"].update(method="GET /")), "request.method"),
    "base64": (changed("exchange.json", lambda e: e["request"].update(body="!")), "request.body"),
    "status": (changed("exchange.json", lambda e: e["response"].update(status="x")), "response.status"),
    "time": (changed("exchange.json", lambda e: e.update(time="yesterday")), "exchange.json: time"),
    "record": (
        changed("exchange.json", lambda e: e["records"].append({"kind": "x"})),
        "exchange.json: records",
    ),
    "statement": (changed("statements.json", lambda s: s.append({})), "statements.json: statements.1"),
    "fetch": (changed("fetches.json", lambda f: f.append({})), "fetches.json: fetches.0"),
    "artifact": (changed("capsule.json", lambda h: h["artifacts"]["web"].pop("kind")), "artifacts.web.kind"),
    "artifact name": (
        changed("capsule.json", lambda h: h["artifacts"].update({"../x": h["artifacts"]["web"]})),
        "capsule.json: artifacts",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_invalid_documents_are_refused_with_their_place(
    name: str, shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record(shop)
    assert run(["capsule", ID, "-o", "x", "--yes", "--with-artifacts"]) == 0
    parts = members(shop / "x")
    change, place = BAD[name]
    change(parts)
    write(shop / "bad", parts)
    capsys.readouterr()
    for command in ("open", "show"):
        if name == "no manifest" and command == "show":
            continue
        assert run(["capsule", command, "bad"]) == 1
        captured = capsys.readouterr()
        assert place in captured.err and "hint:" in captured.err and captured.out == ""


def test_invalid_parts_of_a_replay_are_refused(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(shop)
    assert run(["capsule", ID, "-o", "x", "--yes", "--with-artifacts"]) == 0
    parts = members(shop / "x")
    blob = next(name for name in parts if "/blobs/" in name)
    for name, data, code, text in (
        ("tables.db", b"SQLite format 3\0" + bytes(2000), 1, "nothing was imported"),
        ("svc.toml", b"[project", 2, "svc.toml has 1 mistake"),
        ("svc.toml", MANIFEST.replace("web", "api").encode(), 1, "resource web is not in its svc.toml"),
        (
            "artifacts/web/package.json",
            parts["artifacts/web/package.json"].replace(b",3]", b",4]"),
            1,
            "differs from its digest or size in package.json",
        ),
        ("artifacts/web/package.json", b"{}", 1, "the artifact of resource web in the capsule is invalid"),
        ("artifacts/web/index.json", b"{}", 1, "index.json differs from its digest or size in package.json"),
        (blob, b"other", 1, "differs from its digest or size in package.json"),
    ):
        capsys.readouterr()
        write(shop / "bad", parts | {name: data})
        assert run(["capsule", "open", "bad"]) == code, name
        assert text in capsys.readouterr().err


def leaves(document: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each container with the key of a value in it that is not one."""
    for key, value in list(document.items() if isinstance(document, dict) else enumerate(document)):
        if isinstance(value, dict | list):
            yield from leaves(value)
        else:
            yield document, key


def test_capsule_with_any_other_value_is_refused_or_shown(shop: Path, tmp_path: Path) -> None:
    record(shop)
    assert run(["capsule", ID, "-o", "x", "--yes"]) == 0
    parts = members(shop / "x")
    outcomes = []
    for name in ("capsule.json", "exchange.json", "statements.json", "fetches.json"):
        document = json.loads(parts[name])
        for container, key in leaves(document):
            original = container[key]
            for value in (-1, 10**4000, 1e300, "x", None):
                container[key] = value
                path = write(shop / "bad", parts | {name: json.dumps(document).encode()})
                folder = tmp_path / str(len(outcomes))
                folder.mkdir()
                try:
                    capsule = read_capsule(path, folder)
                    outcomes.append(bool([*capsule_lines(capsule, 100), dump_verbatim(documents(capsule))]))
                except SvcError:
                    outcomes.append(False)
            container[key] = original
    assert {True, False} == set(outcomes)


def test_replay_ends_early_whatever_the_limit_of_the_capsule_is(
    shop: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "MAX_RUN_SECONDS", 0.2)
    record(shop)
    assert run(["capsule", ID, "-o", "x", "--yes", "--with-artifacts"]) == 0
    parts = {name: data for name, data in members(shop / "x").items() if not name.startswith("artifacts/")}
    component = text_guest.component()
    files = {"component.wasm": [hashlib.sha256(component).hexdigest(), len(component)]}
    package = json.dumps({"version": 1, "kind": "component", "files": files}).encode()
    manifest = MANIFEST.replace('"static"', '"rust"\nrun_limit_secs = 900').replace('output = "site"\n', "")
    changed("exchange.json", lambda e: e["request"].update(target="/l"))(parts)
    write(
        shop / "endless",
        parts
        | {
            "svc.toml": manifest.encode(),
            "artifacts/web/package.json": package,
            "artifacts/web/component.wasm": component,
        },
    )
    capsys.readouterr()
    assert run(["capsule", "open", "endless"]) == 1
    assert "504" in capsys.readouterr().out


def test_invalid_component_is_refused(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(shop)
    assert run(["capsule", ID, "-o", "x", "--yes", "--with-artifacts"]) == 0
    parts = {name: data for name, data in members(shop / "x").items() if not name.startswith("artifacts/")}
    component = b"\0asm\x0d\0\x01\0garbage"
    files = {"component.wasm": [hashlib.sha256(component).hexdigest(), len(component)]}
    package = json.dumps({"version": 1, "kind": "component", "files": files}).encode()
    write(
        shop / "bad",
        parts | {"artifacts/web/package.json": package, "artifacts/web/component.wasm": component},
    )
    capsys.readouterr()
    assert run(["capsule", "open", "bad"]) == 1
    assert "error: resource web" in capsys.readouterr().err


def test_terminal_codes_of_a_capsule_are_not_printed(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(shop)
    assert run(["capsule", ID, "-o", "x", "--yes", "--with-artifacts"]) == 0
    parts = members(shop / "x")
    body = b64encode(b"\x1b]0;title\x07").decode()
    changed("exchange.json", lambda e: e["response"].update(body=body))(parts)
    changed("capsule.json", lambda h: h["notes"].append("\x1b[31mred"))(parts)
    changed("statements.json", lambda s: s[0]["request"].update(sql="\x1b[2J"))(parts)
    write(shop / "bad", parts)
    capsys.readouterr()
    assert run(["capsule", "show", "bad"]) == 0 and run(["capsule", "open", "bad"]) == 1
    captured = capsys.readouterr()
    assert "\x1b" not in captured.out + captured.err
