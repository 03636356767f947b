"""Resources of a process from /proc: memory, CPU time, threads, open files."""

import os
import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Held:
    """Sizes in bytes. `rss` counts a page that several instances share once for each of them, `own` are the
    pages that nothing else shares."""

    rss: int
    own: int
    cpu_seconds: float
    threads: int
    files: int


def memory_of(pid: int) -> Held:
    """Return what a process of this user holds now."""
    folder = Path("/proc") / str(pid)
    sizes = {
        name: int(size) * 1024
        for name, size in re.findall(r"^(\w+): +(\d+) kB$", (folder / "smaps_rollup").read_text(), re.M)
    }
    fields = (folder / "stat").read_text().rpartition(")")[2].split()
    return Held(
        sizes["Rss"],
        sizes["Private_Dirty"] + sizes["Private_Clean"],
        (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"),
        int(fields[17]),
        len(list((folder / "fd").iterdir())),
    )
