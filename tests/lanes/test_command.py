import asyncio
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest

from engine.lane import BuildFailed
from lanes.process import MAX_TAIL_BYTES, run_command, run_group, version_of
from tests.support.open_files import open_files
from tests.support.waiting import until


def run(command: str, workdir: Path, lines: list[str] | None = None, limit: float = 60) -> str:
    report = (lines if lines is not None else []).append
    return asyncio.run(
        run_command(command, name="the build", workdir=workdir, report=report, limit_secs=limit)
    )


def failure(command: str, workdir: Path, limit: float = 60) -> BuildFailed:
    with pytest.raises(BuildFailed) as exc_info:
        run(command, workdir, limit=limit)
    return exc_info.value


def dies(pid: int) -> bool:
    """Wait until a killed process has ended or is a zombie."""

    def has_exited() -> bool:
        try:
            os.kill(pid, 0)
            stat = Path(f"/proc/{pid}/stat")
            return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z"
        except (ProcessLookupError, FileNotFoundError):
            return True

    until(has_exited)
    return True


def test_output_is_reported_line_by_line_and_returned(tmp_path: Path) -> None:
    lines: list[str] = []
    tail = run("echo one; echo two >&2; printf three", tmp_path, lines)
    assert lines == ["one", "two", "three"]
    assert tail == "one\ntwo\nthree"


def test_command_runs_in_its_folder_with_an_empty_input(tmp_path: Path) -> None:
    folder = tmp_path / "mein ordner ü"
    folder.mkdir()
    lines: list[str] = []
    run('cat; basename "$PWD"; echo "$(echo a | tr a b)" && true', folder, lines)
    assert lines == ["mein ordner ü", "b"]


def test_colors_and_cursor_movements_are_removed(tmp_path: Path) -> None:
    lines: list[str] = []
    run(r"printf '\033[31mred\033[0m\r50%%\r100%%\n\033]0;title\007x\a\n\377\n'", tmp_path, lines)
    assert lines == ["red", "50%", "100%", "x", "�"]


def test_failed_command_is_reported_with_status_and_output(tmp_path: Path) -> None:
    error = failure("echo what went wrong >&2; exit 3", tmp_path)
    assert error.message == "the build failed with exit status 3: echo what went wrong >&2; exit 3"
    assert error.output == "what went wrong\n"
    assert error.hint and error.reported


def test_missing_command_is_reported(tmp_path: Path) -> None:
    error = failure("no-such-command-at-all --x", tmp_path)
    assert "127" in error.message
    assert "not found" in error.hint
    assert "no-such-command-at-all" in error.output


def test_non_executable_command_is_reported(tmp_path: Path) -> None:
    (tmp_path / "tool.sh").write_text("echo x")
    assert "chmod +x" in failure("./tool.sh", tmp_path).hint


def test_command_killed_by_a_signal_is_reported(tmp_path: Path) -> None:
    error = failure("kill -KILL $$", tmp_path)
    assert "SIGKILL" in error.message
    assert "memory" in error.hint


def test_missing_folder_is_reported(tmp_path: Path) -> None:
    error = failure("true", tmp_path / "nowhere")
    assert "cannot start" in error.message
    assert "nowhere" in error.message


def test_endless_output_is_truncated(tmp_path: Path) -> None:
    lines: list[str] = []
    with pytest.raises(BuildFailed) as exc_info:
        run("yes 0123456789 | head -c 50000000; printf END; exit 1", tmp_path, lines)
    assert len(lines) < 1100
    assert lines[-1].startswith("…")
    assert len(exc_info.value.output) <= MAX_TAIL_BYTES
    assert exc_info.value.output.endswith("END")
    assert exc_info.value.output.startswith("0123456789\n")


def test_endless_line_is_truncated(tmp_path: Path) -> None:
    lines: list[str] = []
    run("head -c 20000000 /dev/zero | tr '\\0' x", tmp_path, lines)
    assert [len(line) for line in lines] == [500]


@pytest.mark.parametrize(
    ("count", "length", "reported"), [(1000, 499, True), (1001, 1, False), (1, 500, False)]
)
def test_output_of_which_lines_were_cut_or_left_out_is_not_reported(
    tmp_path: Path, count: int, length: int, reported: bool
) -> None:
    error = failure(f"yes {'x' * length} | head -n {count}; exit 1", tmp_path)
    assert error.reported is reported


def test_time_limit_ends_the_process_group(tmp_path: Path) -> None:
    error = failure("echo going; sleep 1000 & echo $! > child; wait", tmp_path, limit=2)
    assert "2 seconds" in error.message
    assert "must exit" in error.hint
    assert error.output == "going\n" and error.reported
    assert dies(int((tmp_path / "child").read_text()))


@pytest.mark.slow
def test_process_group_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    failure("trap '' TERM; sleep 1000 & echo $! > child; while :; do wait; done", tmp_path, limit=2)
    assert dies(int((tmp_path / "child").read_text()))


def test_background_processes_are_killed_at_the_end(tmp_path: Path) -> None:
    began = time.monotonic()
    assert run("sleep 1000 & echo $! > child; echo done", tmp_path) == "done\n"
    assert time.monotonic() - began < 60
    assert dies(int((tmp_path / "child").read_text()))


def test_cancellation_ends_the_process_group(tmp_path: Path) -> None:
    async def scenario() -> None:
        started = asyncio.Event()

        def report(_: str) -> None:
            started.set()

        task = asyncio.create_task(
            run_command(
                "sleep 1000 & echo $! > child; echo up; wait", name="x", workdir=tmp_path, report=report
            )
        )
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())
    assert dies(int((tmp_path / "child").read_text()))


def test_cancellation_during_the_start_ends_the_process_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = asyncio.create_subprocess_exec
    child = tmp_path / "child"

    async def main() -> None:
        started = asyncio.Event()

        async def slow(*arguments: Any, **options: Any) -> asyncio.subprocess.Process:
            process = await create(*arguments, **options)
            started.set()
            await asyncio.to_thread(until, lambda: child.exists() and child.read_text().endswith("\n"))
            return process

        monkeypatch.setattr(asyncio, "create_subprocess_exec", slow)
        job = asyncio.create_task(run_group("sleep 1000 & echo $! > child; wait", tmp_path, bytes))
        await started.wait()
        job.cancel()
        with pytest.raises(asyncio.CancelledError):
            await job

    asyncio.run(main())
    assert dies(int(child.read_text()))


def test_file_descriptors_are_closed(tmp_path: Path) -> None:
    run("true", tmp_path)
    before = open_files()
    for command in ("true", "echo x"):
        run(command, tmp_path)
    failure("exit 1", tmp_path)
    failure("true", tmp_path / "nowhere")
    assert open_files() <= before


@pytest.mark.parametrize(
    ("command", "reason"),
    [("sleep 600", "/bin/sh cannot be run: it does not end"), ("echo 1", "/bin/sh cannot be run: 1")],
)
def test_program_without_a_version_has_a_reason(command: str, reason: str) -> None:
    asked = version_of(["/bin/sh", "-c", command], re.compile("none"), 0.5)
    assert asyncio.run(asked) == reason
