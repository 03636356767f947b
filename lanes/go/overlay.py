"""Patched copies of Go's standard library files, which Go compiles instead of the originals (`-overlay`).

- net/http: every http.Transport goes through the host, not only the default one. Programs and packages create
  their own transports for timeouts or connection limits, which have no effect here.
- runtime: the packages of the program are initialized at its first request, not when the runtime starts.
  The host can then start the runtime in advance (`engine/wasm/binary/preinit/run.py`).
- mime/multipart: files of a form stay in memory, up to the memory limit. A guest has no file system.
- net: sockets and lookups fail with an error that names net/http. Go's own fake network refuses connections.
- time: `time.Local` is the time zone of `TZ`.
- crypto/tls: a renegotiation calls the handshake through a function value. Otherwise Go's linker would
  include the handshake, a quarter of a program, wherever net/http is used.

Added files are in `library/`; the guest library detects their methods. A Go with other files is not patched,
and the guest library works without the patches.
"""

import json
import os
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

_LIBRARY = Path(__file__).parent / "library"


@dataclass(frozen=True, slots=True)
class _Patch:
    """Patch of `file` (below GOROOT/src): edits of texts that occur once, and a file of `library/` to add."""

    file: str
    edits: tuple[tuple[str, str], ...]
    added: str | None = None

    def applied(self, root: Path) -> str | None:
        """Return the patched copy, or `None` if the file differs from the known one."""
        try:
            source = (root / "src" / self.file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return None
        for before, after in self.edits:
            if source.count(before) != 1:
                return None
            source = source.replace(before, after)
        if self.added is None:
            return source
        return source + "\n" + (_LIBRARY / self.added).read_text(encoding="utf-8")


_CHANGES = (
    _Patch(
        "net/http/roundtrip.go",
        (
            (
                "\treturn t.roundTrip(req)\n",
                "\tif hostedRoundTrip != nil {\n\t\treturn hostedRoundTrip(req, t.DisableCompression)\n\t}\n"
                "\treturn t.roundTrip(req)\n",
            ),
        ),
        "roundtrip.go.added",
    ),
    _Patch(
        "runtime/proc.go",
        (("\t\tdoInit(m.inittasks)\n", "\t\tdoInit(withoutProgram(m.inittasks))\n"),),
        "proc.go.added",
    ),
    _Patch(
        "mime/multipart/formdata.go",
        (
            ('\t"os"\n', '\t"os"\n\t"runtime"\n'),
            (
                "\t\tn, err := io.CopyN(&b, p, maxFileMemoryBytes+1)\n",
                "\t\tif fh.parts, fh.Size, err = readMemoryFile(p); err != nil {\n"
                "\t\t\treturn nil, err\n\t\t}\n"
                "\t\tform.File[name] = append(form.File[name], fh)\n\t\tcontinue\n"
                "\t\tn, err := io.CopyN(&b, p, maxFileMemoryBytes+1)\n",
            ),
            ("\ttmpshared bool\n}", "\ttmpshared bool\n\tparts     memoryFile\n}"),
            (
                "\tif b := fh.content; b != nil {\n",
                "\tif fh.parts != nil {\n"
                "\t\treturn sectionReadCloser{io.NewSectionReader(fh.parts, 0, fh.Size), nil}, nil\n\t}\n"
                "\tif b := fh.content; b != nil {\n",
            ),
        ),
        "formdata.go.added",
    ),
    _Patch(
        "net/net_fake.go",
        (
            (
                "\tif raddr != nil && ctrlCtxFn != nil {\n",
                "\tif err := noSockets(raddr); err != nil {\n\t\treturn nil, err\n\t}\n"
                "\tif raddr != nil && ctrlCtxFn != nil {\n",
            ),
        ),
        "net_fake.go.added",
    ),
    _Patch(
        "net/dnsclient_unix.go",
        (
            (
                "\tvar lastErr error\n\tserverOffset := cfg.serverOffset()\n",
                "\tif r == nil || r.Dial == nil {\n"
                '\t\treturn dnsmessage.Parser{}, "", '
                "&DNSError{Err: hostedNoLookup.Error(), Name: name, UnwrapErr: hostedNoLookup}\n\t}\n"
                "\tvar lastErr error\n\tserverOffset := cfg.serverOffset()\n",
            ),
        ),
    ),
    _Patch(
        "time/zoneinfo_wasip1.go",
        (
            ("package time\n", 'package time\n\nimport "syscall"\n'),
            ('func initLocal() {\n\tlocalLoc.name = "Local"\n}\n', ""),
        ),
        "zoneinfo_wasip1.go.added",
    ),
    _Patch(
        "crypto/tls/conn.go",
        (
            (
                "c.handshakeErr = c.clientHandshake(context.Background())",
                "c.handshakeErr = c.handshakeFn(context.Background())",
            ),
        ),
    ),
)


def overlay(root: Path, folder: Path) -> list[str]:
    """Return the options of `go build` that use the copies; none if the files of this Go are unknown.

    `root` is GOROOT; the copies are written to `folder`.
    """
    copies = {change.file: copy for change in _CHANGES if (copy := change.applied(root)) is not None}
    if "net/net_fake.go" not in copies:
        copies.pop("net/dnsclient_unix.go", None)
    if "runtime/proc.go" in copies:
        copies["runtime/proc.go"] += _own_packages(root)
    if not copies:
        return []
    digest = sha256(json.dumps([str(root), copies]).encode()).hexdigest()
    target = folder / f"library-{digest[:16]}"
    replacements = {}
    for file, text in copies.items():
        write(target / file, text)
        replacements[str(root / "src" / file)] = str(target / file)
    write(target / "overlay.json", json.dumps({"Replace": replacements}))
    return ["-overlay", str(target / "overlay.json")]


@cache
def _own_packages(root: Path) -> str:
    """Return a Go function that recognizes the packages of the standard library."""
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


def write(file: Path, text: str) -> None:
    """Write a file atomically if it differs, so that Go's cache recognizes equal ones. Raises `OSError`."""
    if file.is_file() and file.read_text(encoding="utf-8", errors="replace") == text:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    arriving = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    arriving.write_text(text, encoding="utf-8")
    arriving.replace(file)
