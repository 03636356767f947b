"""The states of certificates, from those that a service serves with."""

from pathlib import Path

from engine.certificates.private import self_signed
from engine.certificates.state import CertificateStates
from engine.http.tls import Certificate, CertificateSet
from tests.support import certificates

DOMAIN = "apps.example"
NAME, OTHER = "shop.apps.example", "web--shop.apps.example"


def test_service_without_tls_has_no_states() -> None:
    states = CertificateStates(lambda: {"shop": [NAME]}, DOMAIN)
    assert states.of("shop", NAME) is None and states.of_addresses("shop", ()) is None
    assert states.of_service() is None


def test_certificate_is_valid_for_the_names_in_it_and_below_its_wildcard() -> None:
    states = CertificateStates(lambda: {"shop": [NAME, OTHER], "blog": []}, DOMAIN)
    for name, found in ((NAME, ["valid", "failed"]), ("*.apps.example", ["valid", "valid"])):
        states.used = CertificateSet(self_signed(name))
        assert [states.of("shop", each).state for each in (NAME, OTHER)] == found  # type: ignore[union-attr]
    state = states.of_addresses("shop", ())
    assert state is not None and state.until.endswith("Z") and not state.detail
    assert states.of_addresses("blog", ()) is None
    states.used = CertificateSet(self_signed("*.example"), {OTHER: self_signed(OTHER)})
    state = states.of_addresses("shop", ())
    assert state is not None and state.state == "failed" and state.until.endswith("Z")
    assert state.detail == f"the certificate of the service does not name {NAME}"
    states.used = CertificateSet(self_signed("*.example"))
    state = states.of_addresses("shop", ())
    assert state is not None and state.state == "failed" and not state.until
    states.used = CertificateSet(self_signed("*.example"), {OTHER: self_signed(OTHER)})
    state = states.of_addresses("shop", {NAME})
    assert state is not None and state.state == "valid"


def test_certificate_that_names_no_host_is_a_failure(tmp_path: Path) -> None:
    states = CertificateStates(lambda: {}, DOMAIN)
    states.used = CertificateSet(Certificate(*certificates.self_signed(tmp_path)).load())
    state = states.of("shop", NAME)
    assert state is not None and state.state == "failed" and f"does not name {NAME}" in state.detail


def test_files_are_the_certificate_of_the_service(tmp_path: Path) -> None:
    states = CertificateStates(lambda: {}, DOMAIN)
    states.used = CertificateSet(self_signed(DOMAIN))
    found = states.of_service()
    assert found is not None and found.certificate.state == "valid" and found.names == [DOMAIN]
    assert not found.renews_at and not found.retries_at
    states.used = CertificateSet(Certificate(*certificates.self_signed(tmp_path)).load())
    found = states.of_service()
    assert found is not None and found.certificate.state == "failed" and not found.names
    assert found.certificate.detail == f"the certificate of the service does not name {DOMAIN}"


def test_expired_certificate_is_a_failure(tmp_path: Path) -> None:
    states = CertificateStates(lambda: {"shop": [NAME]}, DOMAIN)
    files = certificates.self_signed(tmp_path, days=-1, host=NAME)
    states.used = CertificateSet(Certificate(*files).load())
    state = states.of("shop", NAME)
    assert state is not None and state.state == "failed"
    assert state.detail.startswith("the certificate expired at 2")
