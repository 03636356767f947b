"""The JSON Schema of `svc.toml`, for editors; generated from the models of `document.py`.

Owns nothing but the generation. `python -m engine.manifest.schema` writes it to standard output.
"""

import json
import sys
from typing import Any

from engine.manifest.schema import Document

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema() -> dict[str, Any]:
    """Return the schema of a whole manifest (JSON Schema 2020-12)."""
    made = Document.model_json_schema(by_alias=False)
    resource = made["$defs"]["ResourceTable"]
    for table in (made, *made["$defs"].values()):
        for key in table["properties"].values():
            key.pop("title", None)
            if key.get("default", ...) is None:
                del key["default"]
    resource["properties"]["runLimitSecs"] = dict(resource["properties"]["run_limit_secs"])
    resource["not"] = {"required": ["run_limit_secs", "runLimitSecs"]}
    resource["if"] = {"properties": {"lane": {"const": "static"}}, "required": ["lane"]}
    resource["then"] = {"required": ["output"]}
    return {"$schema": DIALECT, **made, "title": "svc.toml"}


def text() -> str:
    """Return the schema as the text that is checked in."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(text())
