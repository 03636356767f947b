"""A real terminal: a program in tmux, with its keys and what it shows."""

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.waiting import is_running, until

SECONDS = 60.0
SHELL = "shell$"
"""The prompt of the shell in which the program runs."""


@dataclass
class Terminal:
    """One window of a tmux of its own, with a shell in which the program was called."""

    socket: Path

    def tmux(self, *arguments: str) -> str:
        command = ["tmux", "-S", str(self.socket), *arguments]
        process = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
        assert process.returncode == 0, process.stderr
        return process.stdout

    def keys(self, *names: str) -> None:
        """Press keys, by tmux's names."""
        self.tmux("send-keys", "-t", "0", *names)

    def type(self, text: str) -> None:
        self.tmux("send-keys", "-t", "0", "-l", text)

    def paste(self, file: Path) -> None:
        """Paste a file, as terminals paste: in brackets."""
        self.tmux("load-buffer", str(file))
        self.tmux("paste-buffer", "-p", "-t", "0")

    def resize(self, columns: int, lines: int) -> None:
        self.tmux("resize-window", "-t", "0", "-x", str(columns), "-y", str(lines))

    def screen(self, *, coloured: bool = False) -> str:
        return self.tmux("capture-pane", "-p", "-t", "0", *(["-e"] if coloured else []))

    def output(self, format: str) -> str:
        """Return what tmux knows of the window: `#{alternate_on}`."""
        return self.tmux("display-message", "-p", "-t", "0", format).strip()

    def until(self, holds: str | Callable[[str], bool], seconds: float = SECONDS) -> str:
        """Return what is shown once it has a text, or something holds of it."""
        end = time.monotonic() + seconds
        while True:
            screen_text = self.screen()
            if holds in screen_text if isinstance(holds, str) else holds(screen_text):
                return screen_text
            assert time.monotonic() < end, f"{holds!r} was not shown:\n{screen_text}"
            time.sleep(0.05)

    def process(self) -> int:
        """Return the program, which the shell waits for."""
        shell = self.output("#{pane_pid}")
        children = Path(f"/proc/{shell}/task/{shell}/children").read_text().split()
        assert len(children) == 1, children
        return int(children[0])

    def restored(self) -> None:
        """Wait until the shell asks again, in a terminal as it was."""
        self.until(lambda _: self.output("#{pane_current_command}") == "sh")
        state = "#{alternate_on} #{mouse_any_flag} #{cursor_flag} #{keypad_flag}"
        assert self.output(state) == "0 0 1 0"


@contextlib.contextmanager
def terminal(
    command: Sequence[str], folder: Path, environ: Mapping[str, str], size: tuple[int, int] = (100, 30)
) -> Iterator[Terminal]:
    """Open a window with a shell in a folder, and call a program there."""
    assert shutil.which("tmux"), "this test needs tmux on PATH (Debian: apt install tmux)"
    # The path of a socket may have about a hundred characters, so it is not in the test's folder.
    place = Path(f"/tmp/svc-tmux-{os.getpid()}-{time.monotonic_ns()}")
    place.mkdir(mode=0o700)
    opened = Terminal(place / "tmux")
    locale = {"LANG": "C.UTF-8", "LC_ALL": "", "LC_CTYPE": "", "NO_COLOR": "", "TZ": "UTC"}
    locale |= {"COLUMNS": "", "LINES": ""}
    environment = {**locale, "COLORTERM": "truecolor", **environ, "PS1": f"{SHELL} ", "ENV": ""}
    unset = [each for name, value in environment.items() if not value for each in ("-u", name)]
    variables = [*unset, *(f"{name}={value}" for name, value in environment.items() if value)]
    columns, lines = size
    server = None
    try:
        opened.tmux(
            *f"-u -f {os.devnull} new-session -d -x {columns} -y {lines} -c".split(),
            str(folder),
            "env",
            *variables,
            "sh",
            "-i",
        )
        server = int(opened.output("#{pid}"))
        opened.tmux("set", "-g", "status", "off")
        opened.until(SHELL)
        opened.type(shlex.join(command))
        opened.keys("Enter")
        yield opened
    finally:
        programs: list[int] = []
        with contextlib.suppress(AssertionError, OSError):  # The window may have been closed.
            shell = opened.output("#{pane_pid}")
            programs = [*map(int, Path(f"/proc/{shell}/task/{shell}/children").read_text().split())]
        if server is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(server, signal.SIGTERM)
        shutil.rmtree(place)
        until(lambda: not any(map(is_running, programs)), SECONDS)
