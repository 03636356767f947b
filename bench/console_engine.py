"""How many requests a second the engine answers with the Console open, against `svc dev` alone.

The same project in the same run, one after the other, in rounds that take turns; the Console shows its Board
in a terminal of 120 by 40, as one sees it first. Medians of the rounds' ratios count.
"""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from bench.processes import ROOT, load, loaded, svc_dev_process

ROUNDS = 5
SECONDS = 4.0
CONNECTIONS = 16
GIVE_UP = 60.0
_MANIFEST = '[project]\nname = "bench"\n\n[resource.web]\nlane = "static"\npublic = true\noutput = "site"\n'


def project(folder: Path) -> Path:
    """Make a project with one page."""
    root = folder / "bench"
    (root / "site").mkdir(parents=True)
    (root / "site" / "index.html").write_text("hello")
    (root / "svc.toml").write_text(_MANIFEST)
    return root


@contextmanager
def in_terminal(command: Sequence[str], folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], bytearray]]:
    """Run a program in a terminal of 120 by 40; yield it and the last of what it wrote."""
    control, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color"}
    process = subprocess.Popen(
        command, cwd=folder, env=env, stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True
    )
    os.close(terminal)
    seen = bytearray()
    threading.Thread(target=_drain, args=(control, seen), daemon=True).start()
    try:
        yield process, seen
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
        os.close(control)


@contextmanager
def console(root: Path) -> Iterator[tuple[int, int]]:
    """Run the Console; yield its port and its process id once it serves."""
    command = [sys.executable, "-m", "svc_tui", "console", "--port", "0"]
    with in_terminal(command, root) as (process, seen):
        yield _port(seen), process.pid


def _drain(control: int, seen: bytearray) -> None:
    try:
        while piece := os.read(control, 1 << 16):
            seen += piece
            del seen[: max(len(seen) - (1 << 20), 0)]
    except OSError:
        return


def _port(seen: bytearray) -> int:
    end = time.monotonic() + GIVE_UP
    while time.monotonic() < end:
        text = re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]", b"", bytes(seen))
        if (found := re.search(rb"localhost:(\d+)", text)) and b"live" in text:
            return int(found[1])
        time.sleep(0.05)
    raise SystemExit("the Console did not show that its engine lives")


def spent(process: int) -> float:
    """Return the seconds of a processor that a process has taken."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rate(port: int, process: int) -> tuple[float, float]:
    """Return requests a second, and the microseconds of a processor that each took of a process."""
    urllib.request.urlopen(f"http://localhost:{port}/").close()
    before = spent(process)
    with load(port, "/", SECONDS, CONNECTIONS) as generator:
        found = loaded(generator)
    assert not found["failed"], found
    took = (spent(process) - before) / found["requests"] * 1e6
    return float(found["requests"] / found["seconds"]), took


def figures() -> dict[str, float]:
    """Return requests a second `alone` and with the `console`, the `ratio`, and `_us` of a processor each."""
    alone, beside = [], []
    with tempfile.TemporaryDirectory() as folder:
        root = project(Path(folder))
        for _ in range(ROUNDS):
            with svc_dev_process(root) as (port, process):
                alone.append(rate(port, process))
            with console(root) as (port, process):
                beside.append(rate(port, process))
            print(f"  alone {alone[-1][0]:.0f}/s, with the Console {beside[-1][0]:.0f}/s", file=sys.stderr)
    return {
        "alone": median(rate for rate, _ in alone),
        "console": median(rate for rate, _ in beside),
        "ratio": median(b / a for (a, _), (b, _) in zip(alone, beside, strict=True)),
        "alone_us": median(took for _, took in alone),
        "console_us": median(took for _, took in beside),
    }


if __name__ == "__main__":
    print(figures())
