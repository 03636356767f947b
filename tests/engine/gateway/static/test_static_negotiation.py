import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.gateway.static.responder import choose, qualities

ALL = {"identity": 100, "gzip": 50, "br": 40}


@pytest.mark.parametrize(
    ("header", "chosen"),
    [
        (None, "identity"),
        (b"", "identity"),
        (b"gzip", "gzip"),
        (b"gzip, deflate, br, zstd", "br"),
        (b"GZIP;Q=1.0", "gzip"),
        (b"x-gzip", "gzip"),
        (b"br;q=0.2, gzip;q=0.8", "gzip"),
        (b"br;q=0, *", "gzip"),
        (b"*", "br"),
        (b"*;q=0", None),
        (b"*;q=0, identity", "identity"),
        (b"identity;q=0", None),
        (b"identity;q=0, gzip", "gzip"),
        (b"identity;q=1, gzip;q=0.5", "identity"),
        (b"gzip;q=0.001", "gzip"),
        (b"zstd", "identity"),
        (b"br;q=nonsense, gzip", "gzip"),
        (b"br;q=1.5, gzip", "gzip"),
        (b"br;q=", "identity"),
        (b" , ,gzip ; q=0.5 , ", "gzip"),
        (b"gzip;q=0, br;q=0", "identity"),
    ],
)
def test_best_acceptable_coding_is_chosen(header: bytes | None, chosen: str | None) -> None:
    assert choose(header, ALL) == chosen


def test_file_without_compressed_form_offers_identity_only() -> None:
    assert choose(b"br, gzip", {"identity": 10}) == "identity"
    assert choose(b"br, identity;q=0", {"identity": 10}) is None


def test_smaller_of_equally_weighted_codings_is_chosen() -> None:
    assert choose(b"br, gzip", {"identity": 100, "br": 51, "gzip": 50}) == "gzip"


@given(st.binary(max_size=60))
def test_arbitrary_header_never_raises(header: bytes) -> None:
    assert choose(header, ALL) in {*ALL, None}
    assert all(0 <= weight <= 1 for weight in qualities(header).values())


_MEMBERS = st.dictionaries(
    st.sampled_from(["identity", "gzip", "br", "*", "zstd"]), st.integers(0, 1000), max_size=5
)


@given(_MEMBERS)
def test_chosen_coding_is_acceptable_if_any_is(weights: dict[str, int]) -> None:
    header = ", ".join(f"{coding};q={weight / 1000:.3f}" for coding, weight in weights.items()).encode()
    default = weights.get("*", 0)

    def weight(coding: str) -> float:
        if coding in weights:
            return weights[coding]
        return 0.5 if coding == "identity" and "*" not in weights else default

    chosen = choose(header, ALL)
    best = max(map(weight, ALL)) if weights else 0.5
    if best == 0:
        assert chosen is None
    else:
        assert chosen is not None
        assert weight(chosen) == best
