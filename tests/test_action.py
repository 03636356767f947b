"""The action for GitHub: its steps run as GitHub runs them, and deploy to a service."""

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.svc_tui.hosted import Hosted, static_shop
from tests.test_install_script import environ

ROOT = Path(__file__).parents[1]


def fill(text: str, values: dict[str, str]) -> str:
    return re.sub(r"\$\{\{ (.*?) \}\}", lambda match: values[match[1]], text)


@pytest.mark.slow(seconds=40)
def test_action_deploys_with_the_first_line_of_the_message_and_returns_the_address(tmp_path: Path) -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    shop, home, output, path = (tmp_path / name for name in ("my shop ü", "home", "output", "path"))
    static_shop(shop)
    home.mkdir()
    with Hosted(tmp_path / "data") as hosted, hosted.claim() as client:
        token = client.call(
            "POST", "/v1/tokens", {"name": "ci", "role": "deployer", "projects": ["shop"], "days": 1}
        )
        values = {
            "inputs.url": hosted.control,
            "inputs.token": token["token"],
            "inputs.folder": str(shop),
            "inputs.message": "a 'message' $HOME\n\nand more",
            "github.action_path": str(ROOT),
        }
        assert {f"inputs.{name}" for name in action["inputs"]} <= values.keys()
        variables = environ(home, GITHUB_OUTPUT=str(output), GITHUB_PATH=str(path))
        for step in (step for step in action["runs"]["steps"] if "run" in step):
            added = path.read_text().split() if path.exists() else []
            own = variables | {"PATH": os.pathsep.join([*added, variables["PATH"]])}
            own |= {name: fill(text, values) for name, text in step["env"].items()}
            command = [step["shell"], "-ec", fill(step["run"], values)]
            process = subprocess.run(
                command, env=own, cwd=tmp_path, capture_output=True, text=True, check=False
            )
            assert process.returncode == 0, process.stderr
        (deployment,) = client.call("GET", "/v1/projects/shop/deployments")["deployments"]
        assert (deployment["message"], deployment["by"]) == ("a 'message' $HOME", "ann/ci")
    assert output.read_text() == "address=http://shop.apps.example:8080\n"
