"""Has every http.Transport of a program go through the host, not only net/http's default one.

Programs and packages make transports of their own, for time-outs or connection limits that mean nothing here.
Go compiles a changed copy of one file of its library in that file's place (`go build -overlay`); the guest
library hands it the function to call. A Go whose file is another one is left as it is: the guest library sees
that and replaces http.DefaultTransport only.
"""

import json
from hashlib import sha256
from pathlib import Path

from lanes.go.files import write

_FILE = Path("src", "net", "http", "roundtrip.go")
_CALL = "\treturn t.roundTrip(req)\n"
_HOSTED = """\
	if hostedRoundTrip != nil {
		return hostedRoundTrip(req)
	}
"""
_HOOK = """
var hostedRoundTrip func(*Request) (*Response, error)

// HandToHost has every Transport send its requests by this function.
func (t *Transport) HandToHost(roundTrip func(*Request) (*Response, error)) { hostedRoundTrip = roundTrip }
"""


def overlay(root: Path, folder: Path) -> list[str]:
    """Return the options of `go build` that put the copy in place; none when this Go's file is not known.

    `root` is Go's GOROOT; what is made stays in `folder`.
    """
    original = root / _FILE
    try:
        source = original.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return []
    if source.count(_CALL) != 1:
        return []
    changed = source.replace(_CALL, _HOSTED + _CALL) + _HOOK
    place = folder / f"net-http-{sha256((str(root) + changed).encode()).hexdigest()[:16]}"
    copy = place / _FILE.name
    write(copy, changed)
    write(place / "overlay.json", json.dumps({"Replace": {str(original): str(copy)}}))
    return ["-overlay", str(place / "overlay.json")]
