"""Static artifacts with one page, and their deploys."""

from pathlib import Path

from engine.artifact import Artifact
from engine.deploy.deployment import Deployment
from tests.engine.deploy.packing import image_artifact
from tests.engine.service.serving import STATIC, Served


def pages(folder: Path, text: str) -> Artifact:
    return image_artifact(folder / text, {"index.html": text})


async def deploy_page(running: Served, page: Artifact, project: str = "shop") -> Deployment:
    """Deploy a page as a project of its own."""
    manifest = STATIC.replace("shop", project)
    return await running.deploy(await running.order(manifest, {"web": page}, name=project))
