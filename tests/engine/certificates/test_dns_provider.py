"""Records of DNS-01 challenges at a real server, by updates (RFC 2136) and by lexicon."""

from collections.abc import Iterator
from pathlib import Path

import dns.resolver
import pytest

from engine.certificates import dns_provider
from engine.certificates.dns_provider import KEY, RFC2136, SERVER, DnsProvider
from engine.certificates.settings import AuthorityError
from engine.errors import InvalidUsage
from tests.support.knot import SECRET, ZONE, Knot, name_server

DOMAIN = "apps.example.com"
NAME = f"_acme-challenge.{DOMAIN}"
RECORDS = [(NAME, "one"), (NAME, "two")]


@pytest.fixture
def knot(cache: Path, tmp_path: Path) -> Iterator[Knot]:
    with name_server(cache, tmp_path / "knot") as running:
        yield running


def test_rfc2136_creates_several_records_of_a_name_and_removes_them(knot: Knot) -> None:
    provider = DnsProvider(RFC2136, DOMAIN, knot.environ())
    provider.add(RECORDS)
    provider.add(RECORDS)
    assert knot.texts(NAME) == {"one", "two"}
    provider.remove(RECORDS[:1])
    assert knot.texts(NAME) == {"two"}
    provider.remove(RECORDS)
    assert not knot.texts(NAME)


def test_provider_of_lexicon_creates_and_removes_records(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lexicon's own provider for updates uses port 53 only."""
    with name_server(cache, tmp_path / "knot", port=53) as knot:
        environ = {
            "LEXICON_DDNS_AUTH_TOKEN": f"hmac-sha256:svc:{SECRET}",
            "LEXICON_DDNS_DDNS_SERVER": knot.address,
            "LEXICON_DDNS_DOMAIN": ZONE,
        }
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        provider = DnsProvider("ddns", DOMAIN, environ)
        provider.add(RECORDS)
        assert knot.texts(NAME) == {"one", "two"}
        provider.remove(RECORDS)
        assert not knot.texts(NAME)


@pytest.mark.parametrize("target", ["_acme.example.net", "_acme.example.com", "next.example.com"])
def test_record_is_created_where_a_cname_leads(cache: Path, tmp_path: Path, target: str) -> None:
    records = f"{NAME}. CNAME {target}.\nnext CNAME _acme.example.net.\n"
    with name_server(cache, tmp_path / "knot", records=records, other="example.net") as knot:
        provider = DnsProvider(RFC2136, DOMAIN, knot.environ())
        provider.add(RECORDS)
        place = target.replace("next.example.com", "_acme.example.net")
        assert knot.texts(place) == {"one", "two"}
        provider.remove(RECORDS)
        assert not knot.texts(place)


def test_cname_of_a_wildcard_does_not_lead_the_record_away(cache: Path, tmp_path: Path) -> None:
    name = "_acme-challenge.web.example.com"
    with name_server(cache, tmp_path / "knot", records="*.web CNAME apps\n") as knot:
        provider = DnsProvider(RFC2136, "web.example.com", knot.environ())
        provider.add([(name, "one")])
        assert knot.texts(name) == {"one"}
        provider.remove([(name, "one")])
        assert dns.resolver.resolve(name, "CNAME")[0].to_text() == f"{DOMAIN}."


def test_cname_into_a_zone_without_rights_is_named(cache: Path, tmp_path: Path) -> None:
    records = f"{NAME}. CNAME _acme.example.net.\n"
    with name_server(cache, tmp_path / "knot", records=records) as knot:
        provider = DnsProvider(RFC2136, DOMAIN, knot.environ())
        with pytest.raises(
            AuthorityError, match=rf"cannot create .*_acme\.example\.net.*\. {NAME} is a CNAME"
        ):
            provider.add(RECORDS)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({KEY: "hmac-sha256:svc:b3RoZXI="}, "PeerBadSignature"),
        ({KEY: f"hmac-sha256:other:{SECRET}"}, "PeerBadKey"),
        ({SERVER: "127.0.0.1:1"}, "refused"),
        ({SERVER: "[::1]:1"}, "refused|unreachable|assign"),
        ({SERVER: "missing.invalid"}, "missing|resolution|known"),
    ],
)
def test_refused_update_names_record_and_reason(knot: Knot, change: dict[str, str], reason: str) -> None:
    provider = DnsProvider(RFC2136, DOMAIN, knot.environ() | change)
    with pytest.raises(
        AuthorityError, match=f"rfc2136 cannot create the record {NAME}.*({reason})"
    ) as exc_info:
        provider.add(RECORDS)
    assert SECRET not in exc_info.value.message


def test_error_of_a_provider_has_no_credentials(knot: Knot, monkeypatch: pytest.MonkeyPatch) -> None:
    environ = {
        "LEXICON_POWERDNS_AUTH_TOKEN": "correct-horse",
        "LEXICON_POWERDNS_PDNS_SERVER": "http://127.0.0.1:1/correct-horse",
    }
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(AuthorityError, match=r"powerdns cannot create .*127\.0\.0\.1.*/…/") as exc_info:
        DnsProvider("powerdns", DOMAIN, environ).add(RECORDS)
    assert "correct-horse" not in exc_info.value.message


def test_name_of_another_zone_is_refused(knot: Knot) -> None:
    provider = DnsProvider(RFC2136, "apps.example.net", knot.environ())
    with pytest.raises(AuthorityError, match=r"cannot create the record _acme-challenge\.apps\.example\.net"):
        provider.add([("_acme-challenge.apps.example.net", "one")])


def test_records_that_do_not_become_visible_are_left_to_the_authority(
    knot: Knot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dns_provider, "VISIBLE_SECONDS", 0.1)
    monkeypatch.setattr(dns_provider, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(dns_provider, "_name_servers", lambda name: [])
    DnsProvider(RFC2136, DOMAIN, knot.environ()).add(RECORDS)
    assert knot.texts(NAME) == {"one", "two"}


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {SERVER: "ns.example.com"},
        {SERVER: "ns.example.com", KEY: "svc:secret"},
        {SERVER: "ns.example.com", KEY: "hmac-sha256:svc:not base64"},
        {SERVER: "ns.example.com", KEY: f"unknown:svc:{SECRET}"},
        {SERVER: "ns.example.com:dns", KEY: f"hmac-sha256:svc:{SECRET}"},
    ],
)
def test_rfc2136_without_usable_credentials_names_the_variables(environ: dict[str, str]) -> None:
    with pytest.raises(InvalidUsage) as exc_info:
        DnsProvider(RFC2136, DOMAIN, environ)
    assert SERVER in exc_info.value.hint and KEY in exc_info.value.hint


def test_unknown_provider_and_missing_credentials_are_refused(knot: Knot) -> None:
    with pytest.raises(InvalidUsage, match="clowdflare") as exc_info:
        DnsProvider("clowdflare", DOMAIN, {})
    assert "cloudflare" in exc_info.value.hint
    with pytest.raises(InvalidUsage, match="cloudflare has no credentials") as exc_info:
        DnsProvider("cloudflare", DOMAIN, {})
    assert "LEXICON_CLOUDFLARE_AUTH_TOKEN" in exc_info.value.hint
    DnsProvider("cloudflare", DOMAIN, {"LEXICON_CLOUDFLARE_AUTH_TOKEN": "x"})
