"""The functions that a woven component imports from the host, and its export.

`engine/wasm/host/` implements them, and `engine/wasm/guest_side/` calls them.
"""

from collections.abc import Mapping

from engine.wasm.weave.builder import Signature

HOST_INTERFACE = "svc:run/host"
RUN = "svc-run"
RUN_SIGNATURE = Signature(("string",), "u32")
_STATES = ("tuple", "u64", "string")
HOST: Mapping[str, Signature] = {
    "begin": Signature((), "string"),
    "send": Signature(("u32", "u32", "string", "string", "u32"), "u64"),
    "abort": Signature(("u32", "string")),
    "refuse": Signature(("string",)),
    "read": Signature(("u32", "u32"), ("tuple", "string", "u32", "u32")),
    "error": Signature(("u32",), "string"),
    "ready": Signature(("string",), _STATES),
    "wait": Signature(("string", "u64"), _STATES),
    "now": Signature((), "u64"),
    "fetch": Signature(("string",), "string"),
    "response": Signature(("u32",), "string"),
    "close": Signature(("u32", "u32")),
    "print": Signature(("u32", "string", "u32")),
    "exit": Signature(("u32",)),
    "trap": Signature(("string",)),
    "warn": Signature(("string",)),
}
"""Functions of `svc:run/host`, by name."""
DIRECT_INTERFACES: Mapping[str, tuple[str, Mapping[str, Signature]]] = {
    "svc:doors/call": (
        "0.1.0",
        {"ask": Signature(("string", "string", "string"), ("option", ("tuple", "u16", "string")))},
    ),
    "svc:dev/script": ("0.1.0", {"source": Signature((), "string")}),
}
"""Interfaces that guests import and the host implements itself: version, and functions by name."""
