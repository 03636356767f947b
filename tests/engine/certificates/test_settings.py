"""The optional packages of ACME, and what an authority's certificate must have."""

import importlib.util
import sys
import time
from collections.abc import Callable

import pytest

from engine.certificates.manager import mismatch
from engine.certificates.private import new_key, self_signed
from engine.certificates.settings import require_acme, require_dns
from engine.errors import SvcError


@pytest.mark.parametrize(
    ("require", "package", "code", "extra"),
    [
        (require_acme, "acme", "acme-not-installed", "svc-tui[acme]"),
        (require_dns, "lexicon", "dns-not-installed", "svc-tui[acme,dns]"),
    ],
)
def test_missing_package_is_an_error_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, require: Callable[[], None], package: str, code: str, extra: str
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        sys.modules["engine.certificates.settings"],
        "find_spec",
        lambda name: None if name == package else find(name),
    )
    with pytest.raises(SvcError) as exc_info:
        require()
    assert exc_info.value.code == code and extra in exc_info.value.hint


def test_mismatch_names_what_is_wrong() -> None:
    own, names, now = self_signed("apps.example.com"), ["apps.example.com"], time.time()
    assert mismatch(own.chain, own.key, names, now) == ""
    assert "b.example.com" in mismatch(own.chain, own.key, [*names, "b.example.com"], now)
    assert "another key" in mismatch(own.chain, new_key(), names, now)
    assert "no usable" in mismatch("", own.key, names, now)
    for years in (-1, 11):
        assert "correct the clock" in mismatch(own.chain, own.key, names, now + years * 365 * 86400)
