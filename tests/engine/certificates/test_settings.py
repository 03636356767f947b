"""The optional packages of ACME, and what an authority's certificate must have."""

import importlib.util
import sys
import time

import pytest

from engine.certificates.manager import mismatch, self_signed
from engine.certificates.settings import AcmeNotInstalled, DnsNotInstalled, require_acme, require_dns
from engine.certificates.store import new_key


def test_require_acme_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        sys.modules["engine.certificates.settings"],
        "find_spec",
        lambda name: None if name == "acme" else find(name),
    )
    with pytest.raises(AcmeNotInstalled) as exc_info:
        require_acme()
    assert "svc-tui[acme]" in exc_info.value.hint


def test_require_dns_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        sys.modules["engine.certificates.settings"],
        "find_spec",
        lambda name: None if name == "lexicon" else find(name),
    )
    with pytest.raises(DnsNotInstalled) as exc_info:
        require_dns()
    assert "svc-tui[acme,dns]" in exc_info.value.hint


def test_mismatch_names_what_is_wrong() -> None:
    own, names, now = self_signed("apps.example.com"), ["apps.example.com"], time.time()
    assert mismatch(own.chain, own.key, names, now) == ""
    assert "b.example.com" in mismatch(own.chain, own.key, [*names, "b.example.com"], now)
    assert "another key" in mismatch(own.chain, new_key(), names, now)
    assert "no usable" in mismatch("", own.key, names, now)
    for years in (-1, 11):
        assert "correct the clock" in mismatch(own.chain, own.key, names, now + years * 365 * 86400)
