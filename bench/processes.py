"""Starts what a benchmark measures, each in its own process, and ends it."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench-results.json"


@contextlib.contextmanager
def svc_dev(project: Path, *options: str) -> Iterator[int]:
    """Run `svc dev` on a project and yield its port once it serves; its progress goes to our stderr."""
    with svc_dev_process(project, *options) as (port, _):
        yield port


@contextlib.contextmanager
def svc_dev_process(project: Path, *options: str) -> Iterator[tuple[int, int]]:
    """Run `svc dev` likewise, and yield its port and its process id."""
    command = [sys.executable, "-m", "svc_tui", "dev", "--port", "0", *options]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, cwd=project, env=env, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = next(
                int(found.group(1))
                for line in process.stdout
                if (found := re.search(r"http://localhost:(\d+)/", line))
            )
            next(line for line in process.stdout if "watching for changes" in line)
            drain = subprocess.Popen(["cat"], stdin=process.stdout, stdout=subprocess.DEVNULL)
            try:
                yield port, process.pid
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait(20)
                drain.wait(5)
        finally:
            if process.poll() is None:
                process.kill()


@contextlib.contextmanager
def bare_hypercorn(application: str = "bench.bare", *arguments: str) -> Iterator[int]:
    """Run a bare Hypercorn with the application of a module, and yield its port."""
    command = [sys.executable, "-m", application, *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            process.terminate()


@contextlib.contextmanager
def load(
    port: int, path: str, seconds: float, connections: int, rate: float = 0
) -> Iterator[subprocess.Popen[str]]:
    """Run a load generator; `loaded` waits for what it found."""
    arguments = [str(port), path, str(seconds), str(connections), *([str(rate)] if rate else [])]
    command = [sys.executable, "-m", "bench.load", *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def loaded(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Return the result of a load generator."""
    output, _ = process.communicate()
    result: dict[str, Any] = json.loads(output)
    return result


def write_results(name: str, values: dict[str, Any]) -> None:
    """Write the figures of one benchmark to `bench-results.json`."""
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    RESULTS.write_text(json.dumps({**results, name: values}, indent=1, sort_keys=True) + "\n")
