"""JSON Schema of `svc.toml` for editors, generated from `schema.py` and the registered lanes."""

import json
from typing import Any

from engine.manifest.lanes import registered_lanes
from engine.manifest.schema import Document

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema() -> dict[str, Any]:
    """Return the schema of a whole manifest (JSON Schema 2020-12)."""
    document = Document.model_json_schema(by_alias=False)
    resource = document["$defs"]["ResourceTable"]
    for table in (document, *document["$defs"].values()):
        for key in table["properties"].values():
            key.pop("title", None)
            if key.get("default", ...) is None:
                del key["default"]
    resource["properties"]["runLimitSecs"] = dict(resource["properties"]["run_limit_secs"])
    resource["not"] = {"required": ["run_limit_secs", "runLimitSecs"]}
    lanes = registered_lanes()
    resource["properties"]["lane"] |= {"enum": list(lanes)}
    with_output = [name for name, lane in lanes.items() if lane.needs_output]
    resource["if"] = {"properties": {"lane": {"enum": with_output}}, "required": ["lane"]}
    resource["then"] = {"required": ["output"]}
    return {"$schema": DIALECT, **document, "title": "svc.toml"}


def text() -> str:
    """Return the schema as the text that is checked in."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"
