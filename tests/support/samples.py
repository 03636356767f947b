"""Copies of `sample-apps/`."""

import shutil
from pathlib import Path

SAMPLES = Path(__file__).resolve().parents[2] / "sample-apps"


def copied_sample(name: str, folder: Path) -> Path:
    """Copy a sample without its build outputs into a path with a space and an umlaut."""
    copy = folder / f"{name} ü"
    shutil.copytree(SAMPLES / name, copy, ignore=shutil.ignore_patterns("target", "go.work*", ".svc"))
    return copy
