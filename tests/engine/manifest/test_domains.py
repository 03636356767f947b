"""Custom domains in a manifest: their normal form, and mistakes."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.manifest.egress import DomainInvalid, below, parse_domain
from engine.manifest.load import parse
from engine.manifest.problems import ManifestError

PROJECT = '[project]\nname = "shop"\n{}\n'
WEB = '[resource.{}]\nlane = "static"\npublic = true\noutput = "."\n{}\n'


def problems(text: str) -> list[str]:
    with pytest.raises(ManifestError) as caught:
        parse(Path("/dev/null/project"), text.encode())
    return [f"{each.line} {each.key}: {each.message}" for each in caught.value.problems]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Shop.Example.COM", "shop.example.com"),
        ("shop.example.com.", "shop.example.com"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("p\u0430ypal.example", "xn--pypal-4ve.example"),
        ("shop\u3002example", "shop.example"),
    ],
)
def test_parse_domain_returns_lower_case_ascii(text: str, name: str) -> None:
    assert parse_domain(text) == name


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("192.0.2.1", "is an IP address"),
        ("127.1", "is an IP address"),
        ("0x7f.0x1", "is an IP address"),
        ("[::1]", "is an IP address"),
        ("2001:db8::1", "is an IP address"),
        ("\uff11.2.3.4", "is an IP address"),
        ("*.example.com", "is a wildcard"),
        ("example.com:443", "has a port"),
        ("https://example.com", "is a URL"),
        ("example.com/a", "is a URL"),
        ("localhost", "is not a full domain"),
        ("shop.example.com..", "is not a full domain"),
        ("shop.example.com\u3002.", "is not a full domain"),
        ("a_b.example", "is not a domain"),
        ("-a.example", "is not a domain"),
        ("a..example", "is not a domain"),
        ("xn--a.example", "is not a domain"),
        ("☃.example", "is not a domain"),
        ("example.com\n", "is not a domain"),
        ("", "is not a domain"),
        (f"{'a' * 64}.example", "is not a domain"),
        (".".join(["a" * 60] * 5), "is not a domain"),
    ],
)
def test_parse_domain_refuses_other_texts(text: str, reason: str) -> None:
    with pytest.raises(DomainInvalid, match=reason) as caught:
        parse_domain(text)
    assert caught.value.hint and caught.value.code == "domain-invalid" and "\n" not in caught.value.message


@given(st.text(max_size=40))
def test_parse_domain_is_idempotent_and_fails_with_its_own_error_only(text: str) -> None:
    try:
        name = parse_domain(text)
    except DomainInvalid:
        return
    assert parse_domain(name) == name == name.lower() and name.isascii()


def test_below_includes_the_domain_itself_only_with_whole_labels() -> None:
    assert below("apps.example", "apps.example") and below("a.apps.example", "apps.example")
    assert not below("myapps.example", "apps.example") and not below("example", "apps.example")


def test_domains_of_the_project_are_those_of_its_front() -> None:
    text = PROJECT.format('domains = ["B.example", "a.example"]') + WEB.format("web", "")
    project = parse(Path("/dev/null/project"), text.encode())
    assert project.resources["web"].domains == ("b.example", "a.example")
    assert project.domains == {"b.example": "web", "a.example": "web"}


def test_mistakes_name_the_key_and_the_line() -> None:
    both = PROJECT.format("") + WEB.format("web", 'domains = ["a.example", "A.example."]')
    assert problems(both + WEB.format("api", 'domains = ["a.example", "*.b.example"]')) == [
        "8 resource.web.domains[1]: a.example is in resource.web.domains already",
        "13 resource.api.domains[0]: a.example is in resource.web.domains already",
        '13 resource.api.domains[1]: "*.b.example" is a wildcard',
    ]
    many = ", ".join(f'"{index}.a.example"' for index in range(300))
    (problem,) = problems(PROJECT.format("") + WEB.format("web", f"domains = [{many}]"))
    assert problem.startswith("8 resource.web.domains") and "20" in problem


def test_domains_need_a_public_resource_and_one_place() -> None:
    private = '[resource.api]\nlane = "static"\noutput = "."\n{}\n'
    assert problems(PROJECT.format("") + private.format("hsts = true")) == [
        "7 resource.api.hsts: hsts needs a public resource"
    ]
    assert (
        "the project has no front"
        in problems(PROJECT.format('domains = ["a.example"]') + private.format(""))[0]
    )
    twice = PROJECT.format('domains = ["a.example"]') + WEB.format("web", 'domains = ["b.example"]')
    assert problems(twice) == ["3 project.domains: resource web, the front, has domains too"]
