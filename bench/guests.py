"""Projects of one guest, written in any of the dynamic lanes, with the settings of the templates."""

import shutil
from collections.abc import Mapping
from pathlib import Path

from bench.processes import ROOT

LANES = ("rust", "js", "go")
_SOURCES = {"js": "index.js", "go": "main.go", "rust": "src/lib.rs"}
_MODULE = """\
module {name}

go 1.24
"""
_CRATE = """\
[package]
name = "{name}"
version = "0.1.0"
edition = "2021"

[lib]
crate-type = ["cdylib"]

[dependencies]
svc-guest = {{ path = "svc-guest" }}

[profile.release]
codegen-units = 1
lto = true
"""


def write_guest(folder: Path, name: str, lane: str, sources: Mapping[str, str]) -> Path:
    """Write a project whose resource `web` is a guest, of the sources by lane; return its folder."""
    project = folder / lane
    files = {
        "svc.toml": f'[project]\nname = "{name}"\n\n[resource.web]\nlane = "{lane}"\npublic = true\n',
        _SOURCES[lane]: sources[lane],
    }
    if lane == "go":
        files["go.mod"] = _MODULE.format(name=name)
    if lane == "rust":
        files["Cargo.toml"] = _CRATE.format(name=name)
        shutil.copytree(ROOT / "lanes" / "rust" / "guest", project / "svc-guest")
        shutil.copytree(ROOT / "svc_tui" / "templates" / "rust" / ".cargo", project / ".cargo")
    for path, text in files.items():
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text(text)
    return project
