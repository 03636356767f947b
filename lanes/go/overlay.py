"""Changes files of Go's library for hosted programs: Go compiles the copies in their place (`-overlay`).

- net/http: every http.Transport goes through the host, not only the default one. Programs and packages make
  transports of their own, for time-outs or connection limits that mean nothing here.
- runtime: the packages of the program are initialized when its first request comes, not when the runtime
  starts, so that the host can start the runtime ahead (`engine/wasm/binary/preinit/run.py`).
- crypto/tls: a connection that shakes hands again does so by the function with which it did at first. Go's
  linker keeps what a connection's Read may call wherever net/http is used; so it need not keep the handshake,
  a quarter of a program, in those that make no connection.

What is added is in `library/`, and reaches the guest library by methods that it looks for. A Go whose files
are other ones is left as it is, and the guest library does without.
"""

import json
import os
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

from lanes.go.files import write

_LIBRARY = Path(__file__).parent / "library"


@dataclass(frozen=True, slots=True)
class _Change:
    """What `file` (below GOROOT/src) has `before` once, it has `after` instead; the file `added` follows."""

    file: str
    before: str
    after: str
    added: str | None = None

    def applied(self, root: Path) -> str | None:
        """Return the changed copy, `None` where the file is another one."""
        try:
            source = (root / "src" / self.file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return None
        if source.count(self.before) != 1:
            return None
        changed = source.replace(self.before, self.after)
        if self.added is None:
            return changed
        return changed + "\n" + (_LIBRARY / self.added).read_text(encoding="utf-8")


_CHANGES = (
    _Change(
        "net/http/roundtrip.go",
        "\treturn t.roundTrip(req)\n",
        "\tif hostedRoundTrip != nil {\n\t\treturn hostedRoundTrip(req)\n\t}\n\treturn t.roundTrip(req)\n",
        "roundtrip.go.added",
    ),
    _Change(
        "runtime/proc.go",
        "\t\tdoInit(m.inittasks)\n",
        "\t\tdoInit(withoutProgram(m.inittasks))\n",
        "proc.go.added",
    ),
    _Change(
        "crypto/tls/conn.go",
        "c.handshakeErr = c.clientHandshake(context.Background())",
        "c.handshakeErr = c.handshakeFn(context.Background())",
    ),
)


def overlay(root: Path, folder: Path) -> list[str]:
    """Return the options of `go build` that put the copies in place; none when this Go's files are not known.

    `root` is Go's GOROOT; what is made stays in `folder`.
    """
    copies = {change.file: copy for change in _CHANGES if (copy := change.applied(root)) is not None}
    if "runtime/proc.go" in copies:
        copies["runtime/proc.go"] += _own_packages(root)
    if not copies:
        return []
    digest = sha256(json.dumps([str(root), copies]).encode()).hexdigest()
    place = folder / f"library-{digest[:16]}"
    replaced = {}
    for file, text in copies.items():
        write(place / file, text)
        replaced[str(root / "src" / file)] = str(place / file)
    write(place / "overlay.json", json.dumps({"Replace": replaced}))
    return ["-overlay", str(place / "overlay.json")]


@cache
def _own_packages(root: Path) -> str:
    """Return a function of Go that knows the packages which come with it."""
    paths = []
    for folder, folders, files in os.walk(root / "src"):
        folders[:] = sorted(name for name in folders if name not in ("cmd", "testdata"))
        if any(name.endswith(".go") for name in files):
            paths.append(Path(folder).relative_to(root / "src").as_posix())
    names = ", ".join(json.dumps(path) for path in paths)
    return (
        "\nfunc isOwnPackage(path string) bool {\n"
        f"\tswitch path {{\n\tcase {names}:\n\t\treturn true\n\t}}\n\treturn false\n}}\n"
    )
