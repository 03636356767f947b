"""The container image and its compose file: checked, and the steps of the image run in a fresh Debian."""

import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from svc_tui.commands import serve
from tests.test_install_script import Chroot, fresh_debian

ROOT = Path(__file__).parents[1]
Step = tuple[str, str]


def steps() -> list[Step]:
    """Return the instructions of the image with their arguments."""
    lines = (line for line in (ROOT / "Dockerfile").read_text().splitlines() if line and line[0] != "#")
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in lines]


def last(name: str) -> str:
    return next(text for instruction, text in reversed(steps()) if instruction == name)


def command() -> list[str]:
    """Return the command of the image's entry point."""
    return [*json.loads(last("ENTRYPOINT")), *json.loads(last("CMD"))]


def options(words: list[str]) -> set[str]:
    return {word.partition("=")[0] for word in words if word.startswith("--")}


def known_options() -> set[str]:
    return set(re.findall(r'"(--[a-z-]+)"', Path(serve.__file__).read_text())) | {
        f"--{name.replace('_', '-')}" for name in serve.serve.__annotations__
    }


def test_image_runs_as_a_user_with_known_options_and_a_health_check() -> None:
    names = [name for name, _ in steps()]
    assert names.index("USER") < len(names) - names[::-1].index("CMD") - 1
    assert last("USER") == "1000:1000" and last("VOLUME") == "/data"
    assert options(command()) <= known_options() and command()[:2] == ["svc", "serve"]
    check = json.loads(last("HEALTHCHECK").partition("CMD ")[2])
    compile(check[2], "HEALTHCHECK", "exec")
    assert set(names) <= {
        "FROM",
        "RUN",
        "COPY",
        "ENV",
        "USER",
        "WORKDIR",
        "VOLUME",
        "EXPOSE",
        "HEALTHCHECK",
        "ENTRYPOINT",
        "CMD",
    }


def test_compose_file_has_a_read_only_root_without_capabilities_and_known_options() -> None:
    document = yaml.safe_load((ROOT / "compose.yaml").read_text())
    service = document["services"]["svc"]
    assert options(service["command"]) <= known_options() and service["command"][0] == "serve"
    assert service["read_only"] and service["cap_drop"] == ["ALL"] and service["tmpfs"] == ["/tmp"]
    assert {each.partition(":")[0] for each in service["volumes"]} == {*document["volumes"], "./tls"}
    assert [each.partition(":")[2] for each in service["ports"]] == last("EXPOSE").split()


def build(image: Chroot, source: Path) -> dict[str, str]:
    """Run the steps of the image in a root folder; return the environment at their end."""
    user, folder, variables = "0:0", "/", {"HOME": "/root"}
    for name, text in steps():
        if name == "COPY" and "--from" not in text:
            shutil.copytree(source, image.root / "src")
        elif name == "USER":
            user, variables["HOME"] = text, "/srv/svc"
        elif name == "WORKDIR":
            folder = text
        elif name == "ENV":
            variables |= dict(word.split("=", 1) for word in shlex.split(text))
        elif name == "RUN":
            image.run(*as_user(user, folder, "sh", "-ec", text), **variables)
    shutil.rmtree(image.root / "src")
    return variables


def as_user(user: str, folder: str, *words: str) -> list[str]:
    uid, gid = user.split(":")
    into = ["setpriv", "--reuid", uid, "--regid", gid, "--clear-groups", "--no-new-privs"]
    return [*into, "env", "-C", folder, *words]


@pytest.mark.nightly
@pytest.mark.slow(seconds=400)
def test_steps_of_the_image_make_a_service_with_a_read_only_root(tmp_path: Path) -> None:
    source = tmp_path / "source"
    names = subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True).split("\0")
    for name in (name for name in names if name and os.path.lexists(ROOT / name)):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, source / name, follow_symlinks=False)
    image = fresh_debian(tmp_path / "debian", "ca-certificates")
    variables = build(image, source)
    assert (image.root / "srv/svc/.svc/cache/toolchains").is_dir()
    check = shlex.join(json.loads(last("HEALTHCHECK").partition("CMD ")[2]))
    serving = shlex.join([*command(), "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0"])
    script = (
        f"{serving} & until [ -e /data/control.json ]; do read -t 0.1 _ || true; done; {check}; kill $!; wait"
    )
    inside = f"touch /probe 2>/dev/null && exit 1; {script}"
    printed = image.run(
        *as_user("1000:1000", "/srv/svc", "bash", "-c", inside), writable=("data", "tmp"), **variables
    )
    assert "claim it with the code" in printed and "Traceback" not in printed
