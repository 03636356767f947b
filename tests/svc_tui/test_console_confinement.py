"""The limits of a Console at a service: a confined process tries actions on its machine."""

import json
import subprocess
import sys
from pathlib import Path

CONFINED = """
import json, os, pathlib, socket, sys
from svc_tui import atomic_export
from svc_tui.console.web.child import confine

folder = pathlib.Path.cwd()
confine(folder, "http://127.0.0.1:9")
outcomes = {}
for action in json.loads(sys.argv[1]):
    try:
        eval(action)
    except PermissionError as error:
        outcomes[action] = "refused" if "cannot use its machine" in str(error) else str(error)
    except Exception as error:
        outcomes[action] = type(error).__name__
    else:
        outcomes[action] = "done"
print(json.dumps(outcomes))
"""
REFUSED = [
    "open('/etc/passwd')",
    "os.open('/proc/self/environ', os.O_RDONLY)",
    "open('../secret')",
    "open('link')",
    "open('../new', 'w')",
    "open(os.path.join(sys.prefix, 'new'), 'w')",
    "os.listdir('/')",
    "os.scandir('..')",
    "os.remove('../secret')",
    "os.rename('own', '../secret')",
    "os.rename('../secret', 'own')",
    "os.symlink('/etc/passwd', 'other')",
    "os.link('../secret', 'other')",
    "os.mkdir('../folder')",
    "os.system('true')",
    "os.execv('/bin/true', ['true'])",
    "os.posix_spawn('/bin/true', ['true'], {})",
    "os.fork()",
    "os.kill(os.getppid(), 0)",
    "__import__('subprocess').run(['true'])",
    "__import__('webbrowser').get('/bin/true %s').open('http://localhost')",
    "__import__('pty').spawn('/bin/true')",
    "__import__('ctypes').CDLL(None)",
    "__import__('shutil').rmtree('.')",
    "socket.create_connection(('127.0.0.1', 10))",
    "socket.create_connection(('192.0.2.1', 9))",
    "socket.socket(socket.AF_UNIX).connect('/run/any')",
    "socket.socket().bind(('127.0.0.1', 0))",
]
PERMITTED = {
    "atomic_export.write_export(folder / 'people.csv', [b'id'])": "done",
    "open('people.csv').read()": "done",
    "[each.unlink() for each in folder.iterdir() if each.suffix]": "done",
    "__import__('email.mime.audio')": "done",
    "socket.create_connection(('127.0.0.1', 9))": "ConnectionRefusedError",
}


def test_machine_is_out_of_reach_except_own_folder_and_control_api(tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.mkdir()
    (tmp_path / "secret").write_text("secret")
    (private / "own").write_text("own")
    (private / "link").symlink_to(tmp_path / "secret")
    command = [sys.executable, "-I", "-B", "-c", CONFINED, json.dumps([*REFUSED, *PERMITTED])]
    result = subprocess.run(command, cwd=private, env={}, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == dict.fromkeys(REFUSED, "refused") | PERMITTED
    assert (tmp_path / "secret").read_text() == "secret"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["private", "secret"]
    assert sorted(each.name for each in private.iterdir()) == ["link", "own"]
