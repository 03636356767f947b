import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.artifact import BundleFile
from engine.static_files.bundle import SMALL_BYTES, decode_index, encode_index, index_digest, is_servable

_NAME = st.text(
    st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="/\\"), min_size=1, max_size=9
)
_PATH = st.lists(_NAME.filter(is_servable), min_size=1, max_size=3).map("/".join)
_TYPE = st.text("abc/+-; =", min_size=1, max_size=20).map(lambda text: f"x{text}")
_SHA256 = st.text("0123456789abcdef", min_size=64, max_size=64)
_ENCODINGS = st.dictionaries(st.sampled_from(["br", "gzip"]), st.tuples(_SHA256, st.integers(0))).map(
    lambda d: {"identity": ("ab" * 32, 3), **d}
)
_FILES = st.lists(
    st.builds(BundleFile, _PATH, _TYPE, _ENCODINGS, st.booleans()), unique_by=lambda f: f.path, max_size=6
)


def _entry(path: object = "a", type: object = "text/css", **encodings: object) -> dict[str, object]:
    return {"path": path, "type": type, "encodings": {"identity": ["ab" * 32, 3], **encodings}}


@given(_FILES)
def test_index_round_trips(files: list[BundleFile]) -> None:
    assert decode_index(encode_index(files)) == tuple(sorted(files, key=lambda f: f.path))


@given(_FILES, st.randoms())
def test_encode_index_ignores_order_of_files(files: list[BundleFile], random) -> None:
    shuffled = [
        replace(f, encodings=dict(reversed(f.encodings.items()))) for f in random.sample(files, len(files))
    ]
    assert encode_index(shuffled) == encode_index(files)


def test_index_format_is_stable() -> None:
    index = encode_index([BundleFile("ü.css", "text/css", {"identity": ("aa", 2), "br": ("bb", 1)})])
    entry = '{"encodings":{"br":["bb",1],"identity":["aa",2]},"path":"ü.css","type":"text/css"}'
    assert index.decode() == f'{{"files":[{entry}],"version":1}}'
    assert index_digest(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@pytest.mark.parametrize(
    "document",
    [
        [],
        {},
        {"version": 2, "files": []},
        {"version": 1},
        {"version": 1, "files": [{}]},
        {"version": 1, "files": [3]},
        {"version": 1, "files": [{"path": "a", "type": "b", "encodings": {}}]},
        {"version": 1, "files": [{"path": "a", "type": "b", "encodings": {"identity": ["x"]}}]},
        {"version": 1, "files": [{"path": "a", "type": "b", "encodings": []}]},
    ],
)
def test_decode_index_of_invalid_data_raises_value_error(document: object) -> None:
    with pytest.raises(ValueError):
        decode_index(json.dumps(document).encode())


@pytest.mark.parametrize(
    "entry",
    [
        _entry(identity=["../../../../etc/passwd", 3]),
        _entry(identity=["/etc/passwd", 3]),
        _entry(identity=["AB" * 32, 3]),
        _entry(identity=["ab" * 32 + "\n", 3]),
        _entry(identity=[7, 3]),
        _entry(identity=["ab" * 32, -1]),
        _entry(identity=["ab" * 32, True]),
        _entry(identity=["ab" * 32, 3.5]),
        _entry(identity=["ab" * 32, "3"]),
        _entry(br=["../x", 1]),
        _entry(deflate=["ab" * 32, 1]),
        _entry(**{"br\r\nx": ["ab" * 32, 1]}),
        _entry(""),
        _entry("/a"),
        _entry("a//b"),
        _entry("../a"),
        _entry(".env"),
        _entry("a\0b"),
        _entry("\ud800"),
        _entry(3),
        _entry("a", "text/css\r\nset-cookie: a=b"),
        _entry("a", ""),
        _entry("a", "text/ü"),
        _entry("a", None),
    ],
)
def test_decode_index_with_unsafe_values_raises_value_error(entry: object) -> None:
    right = {"version": 1, "files": [_entry("ü/.well-known/a b.css", br=["cd" * 32, 2])]}
    assert len(decode_index(json.dumps(right).encode())) == 1
    with pytest.raises(ValueError):
        decode_index(json.dumps({"version": 1, "files": [entry]}).encode())


def test_large_index_is_read_file_by_file() -> None:
    names = [f'a/{number}}},{{"encodings":.css' for number in range(10_000)]
    files = [BundleFile(name, "text/css", {"identity": (f"{n:064x}", n)}) for n, name in enumerate(names)]
    index = encode_index(files)
    assert len(index) > SMALL_BYTES
    assert decode_index(index) == tuple(sorted(files, key=lambda file: file.path))
    long = index.replace(b'"text/css"', b'"' + b"x" * 20_000 + b'"', 1)
    for invalid in (index[:-1], index.replace(b'"version":1', b'"version":2'), b" " + index, long):
        with pytest.raises(ValueError):
            decode_index(invalid)
    with pytest.raises(ValueError):
        decode_index(b'{"files":[{"encodings":' + b"[]," * (1 << 20) + b'[]}],"version":1}')
