"""`svc build` on resources with prebuilt components, which need no toolchain."""

import os
import re
import signal
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from svc_tui.main import run
from tests.lanes.components import component
from tests.support.waiting import until


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "project ü"
    root.mkdir()
    monkeypatch.setenv("SVC_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.chdir(root)
    return root


def resources(root: Path, **commands: str) -> None:
    """Write a manifest of js resources with these build commands, each in a folder of its own."""
    tables = ['[project]\nname = "shop"\n']
    for name, command in commands.items():
        folder = root / name
        folder.mkdir(exist_ok=True)
        if not (folder / "made.wasm").exists():
            (folder / "made.wasm").write_bytes(component(note=name))
        build = f"{command}; mkdir -p out; cp made.wasm out/app.wasm"
        tables.append(
            f"[resource.{name}]\nlane = 'js'\npublic = true\nworkdir = '{name}'\nbuild = '''{build}'''\n"
            "output = 'out/app.wasm'\n"
        )
    (root / "svc.toml").write_text("".join(tables))


def names(text: str) -> list[str]:
    return [line.split()[0] for line in text.splitlines()]


def test_build_prints_results_in_manifest_order_and_names_progress_lines(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    resources(project, zebra="sleep 0.3; echo slow", ant="echo quick", bee="true")
    assert run(["build"]) == 0
    captured = capsys.readouterr()
    assert names(captured.out) == ["zebra", "ant", "bee"]
    assert len(set(re.findall(r"sha256:([0-9a-f]{64})", captured.out))) == 3
    assert "· zebra: slow\n" in captured.err and "· ant: quick\n" in captured.err
    assert "· bee: compiling a component to machine code …\n" in captured.err


@pytest.mark.skipif(os.cpu_count() == 1, reason="one processor builds one after the other")
def test_build_builds_resources_concurrently(project: Path) -> None:
    wait = "n=0; until test -e ../{1}.began; do sleep 0.05; n=$((n+1)); test $n -lt 200; done"
    meet = "touch ../{0}.began; " + wait
    resources(project, one=meet.format("one", "two"), two=meet.format("two", "one"))
    assert run(["build"]) == 0


def test_component_is_written_to_a_file(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    resources(project, one="true", two="true")
    digests = []
    for _ in range(2):  # The second build is unchanged.
        assert run(["build", "--component", "two=../a=b.wasm", "--component=one=one.wasm"]) == 0
        digests += re.findall(r"sha256:([0-9a-f]{64})", capsys.readouterr().out)
    written = [sha256(Path(name).read_bytes()).hexdigest() for name in ("one.wasm", "../a=b.wasm")]
    assert digests == written * 2
    for wrong in ("one", "other=x", "one=", "=x"):
        assert run(["build", "--component", wrong]) == 2
        assert f"--component {wrong} names no component" in capsys.readouterr().err
    assert run(["build", "--component", f"one={'x' * 300}"]) == 1
    assert "cannot write xxx" in capsys.readouterr().err
    resources(project, one="true")
    assert run(["build", "--component", "alone.wasm"]) == 0
    assert sha256(Path("alone.wasm").read_bytes()).hexdigest() == written[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["one=a", "one=b"], "error: --component names one twice"),
        (["one=a", "two=./a"], "error: --component names ./a twice"),
        (["one=a", "two=link"], "error: --component names link twice"),
        (["one=folder"], "error: --component one=folder: folder is not a regular file"),
        (["one=pipe"], "error: --component one=pipe: pipe is not a regular file"),
        (["one=missing/x"], "error: --component one=missing/x: the folder of missing/x does not exist"),
        (["one=lost"], "error: --component one=lost: the folder of lost does not exist"),
        (["one="], "hint: Use one of: --component one=FILE, --component two=FILE"),
        ([""], "hint: Use one of: --component one=FILE, --component two=FILE"),
    ],
)
def test_component_file_that_cannot_be_written_is_refused_before_the_build(
    project: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    resources(project, one="touch ../built", two="touch ../built")
    (project / "folder").mkdir()
    os.mkfifo(project / "pipe")
    (project / "link").symlink_to("a")
    (project / "lost").symlink_to("missing/x")
    assert run(["build", *(f"--component={each}" for each in options)]) == 2
    assert message in capsys.readouterr().err
    assert not (project / "built").exists()


def test_component_file_behind_a_link_is_replaced_whole_by_builds_at_once(project: Path) -> None:
    resources(project, one="true")
    Path("link.wasm").symlink_to("app.wasm")
    command = [sys.executable, "-m", "svc_tui", "build", "--component", "link.wasm"]
    builds = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    printed = {build.communicate(timeout=60)[0].split("sha256:")[1][:64] for build in builds}
    assert [build.returncode for build in builds] == [0] * 3
    assert printed == {sha256(Path("app.wasm").read_bytes()).hexdigest()}
    assert Path("link.wasm").is_symlink() and not list(project.glob(".app.wasm*"))


def test_build_skips_unchanged_resources_unless_no_cache(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    resources(project, one="echo run >> ../one.log", two="echo run >> ../two.log")
    assert run(["build"]) == 0
    first = capsys.readouterr().out
    assert run(["build"]) == 0
    captured = capsys.readouterr()
    assert captured.out.count("unchanged") == 2 and captured.err == ""
    assert re.findall("sha256:.{64}", first) == re.findall("sha256:.{64}", captured.out)
    (project / "two" / "source").write_text("new")
    assert run(["build"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines() if "unchanged" in line] == [
        "one"
    ]
    assert run(["build", "--no-cache"]) == 0
    assert "unchanged" not in capsys.readouterr().out
    assert (project / "one.log").read_text().split() == ["run"] * 2
    assert (project / "two.log").read_text().split() == ["run"] * 3


def test_build_failure_of_one_resource_leaves_the_others_built(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    resources(project, one="echo reason; false || exit 3", two="true", three="exit 4")
    assert run(["build"]) == 1
    captured = capsys.readouterr()
    assert names(captured.out) == ["two"]
    assert "resource one failed with exit status 3" in captured.err
    assert captured.err.splitlines().count("· one: reason") == 1
    assert "    reason" not in captured.err.splitlines()  # Not repeated in the error.
    assert "resource three failed with exit status 4" in captured.err


def test_build_rejects_unsupported_imports_and_a_missing_handler_by_name(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("one", "two"):
        (project / name).mkdir()
    (project / "one" / "made.wasm").write_bytes(component(["acme:db/store@1.0.0", "wasi:io/error@0.2.0"]))
    (project / "two" / "made.wasm").write_bytes(component(exports=["wasi:cli/run@0.2.0"]))
    resources(project, one="true", two="true")
    assert run(["build"]) == 1
    captured = capsys.readouterr()
    assert (
        "resource one: the component imports acme:db/store@1.0.0, which svc does not provide" in captured.err
    )
    assert "resource two: the component does not export wasi:http/incoming-handler" in captured.err
    assert captured.out == ""
    assert run(["build"]) == 1
    assert "acme:db/store@1.0.0" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signal_ends_the_build_command_too(project: Path, number: int) -> None:
    resources(project, web="echo $$ > pid; exec sleep 300")

    def expect_signals() -> None:  # A test runner in the background may ignore them.
        for each in (signal.SIGINT, number):
            signal.signal(each, signal.SIG_DFL)

    building = subprocess.Popen(
        [sys.executable, "-m", "svc_tui", "build"], stderr=subprocess.DEVNULL, preexec_fn=expect_signals
    )
    pid = project / "web" / "pid"
    until(lambda: pid.exists() and pid.read_text())
    building.send_signal(number)
    assert building.wait(30) == 128 + number
    until(lambda: not Path(f"/proc/{pid.read_text().strip()}").exists())


def test_fallback_is_built_after_the_command_that_writes_its_sources(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "made.wasm").write_bytes(component())
    (project / "svc.toml").write_text(
        "[project]\nname = 'shop'\n"
        "[resource.server]\nlane = 'js'\noutput = 'app.wasm'\nbuild = 'cp out/server.wasm app.wasm'\n"
        "[resource.web]\nlane = 'static'\npublic = true\noutput = 'out'\nfallback = 'server'\n"
        "build = 'sleep 0.1; mkdir -p out; cp made.wasm out/server.wasm'\n"
    )
    assert run(["build"]) == 0
    capsys.readouterr()
    assert run(["build"]) == 0
    server, web = capsys.readouterr().out.splitlines()
    assert server.endswith("unchanged") and not web.endswith("unchanged")
