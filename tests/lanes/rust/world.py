"""Generator of the guest crate's `world.bin`: `python -m tests.lanes.rust.world`.

The file describes imports and exports of components made with that crate, in the encoding that
`wasm-component-ld` reads from the custom section `component-type:…`. The interfaces are complete, because
the linker merges them with those of other crates and refuses differences. A component imports only what its
program calls. A test checks that the file is current; the lane does not run this.
"""

import wasmtime

from lanes.wit_imports import parse_interfaces
from tests.support.tracked import ROOT

BINARY = ROOT / "lanes" / "rust" / "guest" / "src" / "abi" / "world.bin"
_INTERFACES = (
    "wasi:io/poll@0.2.4", "wasi:clocks/monotonic-clock@0.2.4", "wasi:io/error@0.2.4", "wasi:io/streams@0.2.4",
    "wasi:http/types@0.2.4", "wasi:http/outgoing-handler@0.2.4",
)  # fmt: skip
_WORLD = """
(component
  (@custom "wit-component-encoding" "\\04\\00")
  (type $package (component
    (type $world (component
{imports}
      (export "wasi:http/incoming-handler@0.2.4" (instance
        (alias outer $world $incoming-request (type $outer-incoming-request))
        (export "incoming-request" (type $incoming-request (eq $outer-incoming-request)))
        (alias outer $world $response-outparam (type $outer-response-outparam))
        (export "response-outparam" (type $response-outparam (eq $outer-response-outparam)))
        (export "handle" (func
          (param "request" (own $incoming-request)) (param "response-out" (own $response-outparam))))
      ))
    ))
    (export "svc:guest/guest@0.1.0" (component (type $world)))
  ))
  (export "guest" (type $package))
)
"""


def assemble() -> bytes:
    """Return the content of `world.bin`."""
    functions = parse_interfaces({}).functions
    imports = parse_interfaces({name: functions[name] for name in _INTERFACES}).text
    return bytes(wasmtime.wat2wasm(_WORLD.format(imports=imports)))


if __name__ == "__main__":
    BINARY.write_bytes(assemble())
