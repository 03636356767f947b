"""Compilations of deploys: one of a project at a time, and two projects at the same time."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engine.wasm.compile.compilers import NICENESS
from engine.wasm_binary import section
from svc_tui.client import Client
from tests.engine.wasm import text_guest
from tests.svc_tui.hosted import Hosted, deploy

COMPILER = "engine.wasm.compile.compiler"


class Compilers:
    """The compiler processes that this process starts, observed in a thread."""

    def __init__(self) -> None:
        self.most = 0
        """Most processes at once."""
        self.seen: set[str] = set()
        self.niceness = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._observe)

    def __enter__(self) -> "Compilers":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _observe(self) -> None:
        while not self._stopped.is_set():
            running = {
                pid
                for children in Path("/proc/self/task").glob("*/children")
                for pid in content(children).split()
                if COMPILER in content(Path(f"/proc/{pid}/cmdline"))
            }
            for pid in running:
                _, _, state = content(Path(f"/proc/{pid}/stat")).rpartition(")")
                self.niceness = max(self.niceness, int(state.split()[16]) if state else 0)
            self.seen |= running
            self.most = max(self.most, len(running))
            time.sleep(0.002)


def content(path: Path) -> str:
    """Return the text of a file of a process or thread, which may have ended."""
    try:
        return path.read_text()
    except OSError:
        return ""


def project(folder: Path, name: str, components: int) -> Path:
    """Write a project of several components that differ; return its folder."""
    root = folder / name
    root.mkdir()
    text = f'[project]\nname = "{name}"\n'
    for number in range(components):
        data = text_guest.component() + section(0, b"\x01n" + name.encode() + bytes([number]))
        (root / f"{number}.wasm").write_bytes(data)
        text += f'\n[resource.r{number}]\nlane = "rust"\nbuild = "true"\noutput = "{number}.wasm"\n'
    (root / "svc.toml").write_text(text)
    return root


@pytest.mark.slow
def test_components_of_a_project_compile_one_after_the_other(tmp_path: Path) -> None:
    shop = project(tmp_path, "shop", 4)
    with Hosted(tmp_path / "data") as hosted, hosted.claim() as client:
        with Compilers() as compilers:
            deploy(client, shop)
        assert (len(compilers.seen), compilers.most) == (4, 1)
        assert compilers.niceness == min(os.nice(0) + NICENESS, 19)


@pytest.mark.slow
def test_projects_compile_at_the_same_time(tmp_path: Path) -> None:
    roots = [project(tmp_path, name, 4) for name in ("shop", "blog")]

    def deploy_one(root: Path) -> None:
        with Client(hosted.control, hosted.token) as client:
            deploy(client, root)

    with Hosted(tmp_path / "data") as hosted, hosted.claim():
        with Compilers() as compilers, ThreadPoolExecutor(2) as threads:
            list(threads.map(deploy_one, roots))
        assert (len(compilers.seen), compilers.most) == (8, 2)
