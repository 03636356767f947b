"""Static artifacts with one page."""

from pathlib import Path

from engine.artifact import Artifact
from tests.engine.deploy.packing import image_artifact


def pages(folder: Path, text: str) -> Artifact:
    return image_artifact(folder / text, {"index.html": text})
