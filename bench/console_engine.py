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
from dataclasses import dataclass, field
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


@dataclass
class Shown:
    """A program in a terminal: the end of its output, the number of all bytes of it, and its keyboard."""

    process: subprocess.Popen[bytes]
    keyboard: int
    output: bytearray = field(default_factory=bytearray)
    written: int = 0


@contextmanager
def in_terminal(command: Sequence[str], folder: Path) -> Iterator[Shown]:
    """Run a program in a terminal of 120 by 40."""
    control, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color"}
    process = subprocess.Popen(
        command, cwd=folder, env=env, stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True
    )
    os.close(terminal)
    shown = Shown(process, control)
    threading.Thread(target=_drain, args=(shown,), daemon=True).start()
    try:
        yield shown
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
    with in_terminal(command, root) as shown:
        yield _port(shown.output), shown.process.pid


def _drain(shown: Shown) -> None:
    try:
        while piece := os.read(shown.keyboard, 1 << 16):
            shown.output += piece
            del shown.output[: max(len(shown.output) - (1 << 20), 0)]
            shown.written += len(piece)
    except OSError:
        return


def _port(output: bytearray) -> int:
    end = time.monotonic() + GIVE_UP
    while time.monotonic() < end:
        text = re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]", b"", bytes(output))
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
    cost = (spent(process) - before) / found["requests"] * 1e6
    return float(found["requests"] / found["seconds"]), cost


def figures() -> dict[str, float]:
    """Return requests a second `alone` and with the `console`, the `ratio`, and `_us` of a processor each."""
    alone, with_console = [], []
    with tempfile.TemporaryDirectory() as folder:
        root = project(Path(folder))
        for _ in range(ROUNDS):
            with svc_dev_process(root) as (port, process):
                alone.append(rate(port, process))
            with console(root) as (port, process):
                with_console.append(rate(port, process))
            print(
                f"  alone {alone[-1][0]:.0f}/s, with the Console {with_console[-1][0]:.0f}/s", file=sys.stderr
            )
    return {
        "alone": median(rate for rate, _ in alone),
        "console": median(rate for rate, _ in with_console),
        "ratio": median(b / a for (a, _), (b, _) in zip(alone, with_console, strict=True)),
        "alone_us": median(cost for _, cost in alone),
        "console_us": median(cost for _, cost in with_console),
    }


if __name__ == "__main__":
    print(figures())
