import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.artifact import ImageFile
from engine.image import decode_index, encode_index, index_digest

_TEXT = st.text(st.characters(blacklist_categories=("Cs",)), max_size=20)
_ENCODINGS = st.dictionaries(
    st.sampled_from(["br", "gzip"]), st.tuples(st.text("0123456789abcdef", max_size=64), st.integers(0))
).map(lambda d: {"identity": ("ab", 3), **d})
_FILES = st.lists(st.builds(ImageFile, _TEXT, _TEXT, _ENCODINGS), unique_by=lambda f: f.path, max_size=6)


@given(_FILES)
def test_an_index_comes_back_as_it_was(files: list[ImageFile]) -> None:
    assert decode_index(encode_index(files)) == tuple(sorted(files, key=lambda f: f.path))


@given(_FILES, st.randoms())
def test_equal_files_make_an_equal_index_in_any_order(files: list[ImageFile], random) -> None:
    shuffled = [
        ImageFile(f.path, f.content_type, dict(reversed(f.encodings.items())))
        for f in random.sample(files, len(files))
    ]
    assert encode_index(shuffled) == encode_index(files)


def test_the_format_on_disk_is_fixed() -> None:
    index = encode_index([ImageFile("ü.css", "text/css", {"identity": ("aa", 2), "br": ("bb", 1)})])
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
def test_what_is_no_index_is_a_value_error(document: object) -> None:
    with pytest.raises(ValueError):
        decode_index(json.dumps(document).encode())
