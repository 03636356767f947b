import json
import re
import tomllib
from pathlib import Path

import pytest

from engine.manifest.schema import (
    Document,
    ProjectTable,
    ResourceTable,
    is_name,
    json_schema_text,
    manifest_schema,
)

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs" / "reference"


def test_committed_schema_matches_models() -> None:
    assert (DOCS / "manifest.schema.json").read_text(encoding="utf-8") == json_schema_text(), (
        "generate it: make docs"
    )


def test_schema_describes_exactly_all_keys() -> None:
    tables = manifest_schema()["$defs"]
    resource = tables["ResourceTable"]["properties"]
    assert set(resource) == {*ResourceTable.model_fields, "runLimitSecs"}
    assert set(tables["ProjectTable"]["properties"]) == set(ProjectTable.model_fields)
    assert all(key["description"] for key in resource.values())
    assert set(manifest_schema()["properties"]) == set(Document.model_fields)


@pytest.mark.parametrize(
    ("name", "good"),
    [
        ("a", True),
        ("a-1", True),
        ("a" * 39, True),
        ("a-b-c", True),
        ("", False),
        ("a" * 40, False),
        ("1a", False),
        ("-a", False),
        ("a-", False),
        ("a--b", False),
        ("A", False),
        ("a_b", False),
        ("ä", False),
        ("a\n", False),
    ],
)
def test_schema_and_loader_accept_equal_names(name: str, good: bool) -> None:
    rule = manifest_schema()["$defs"]["ProjectTable"]["properties"]["name"]
    by_schema = re.search(rule["pattern"].replace("$", r"\Z"), name) is not None
    assert (by_schema and len(name) <= rule["maxLength"]) == is_name(name) == good


@pytest.mark.parametrize("pattern", ["/*", "/api/*", "/api", "/a/b/*", "/"])
def test_schema_accepts_valid_mount_patterns_only(pattern: str) -> None:
    rule = manifest_schema()["$defs"]["ResourceTable"]["properties"]["mounts"]["propertyNames"]["pattern"]
    assert re.search(rule, pattern)
    assert not any(re.search(rule, wrong) for wrong in ("api", "/a*", "/*/a", "/a?b", ""))


def test_every_key_is_documented() -> None:
    page = (DOCS / "manifest.md").read_text(encoding="utf-8")
    for key in [*ResourceTable.model_fields, "runLimitSecs", "project.name"]:
        assert f"`{key}`" in page, f"docs/reference/manifest.md does not describe {key}"


def test_documented_ranges_and_defaults_match_models() -> None:
    rows = dict(
        re.findall(r"^\| `(\w+)` \| ([^|]+) \|", (DOCS / "manifest.md").read_text("utf-8"), re.MULTILINE)
    )
    for name, field in ResourceTable.model_fields.items():
        default = "required" if field.is_required() else json.dumps(field.default)
        if field.default is not None:
            assert default.strip('"') in rows[name], f"{name}: the documented default is not {default}"


def test_manifest_examples_of_documentation_are_valid() -> None:
    page = (DOCS / "manifest.md").read_text(encoding="utf-8")
    examples = re.findall(r"^```toml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert examples
    for example in examples:
        Document.model_validate(tomllib.loads(example))
