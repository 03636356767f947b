"""Certificates without a public authority: temporary ones, and those by which nodes of a fleet authenticate.

Import it where it is used: its own imports take a tenth of a service's start.
"""

import datetime
import ipaddress

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from engine.http.tls import IssuedCertificate

VALIDITY = datetime.timedelta(days=3650)
_BACKDATED = datetime.timedelta(days=1)
"""Certificates are valid at once on nodes whose clock is behind."""


class Issuer:
    """The authority of a fleet, which issues certificates for its nodes (mutual TLS)."""

    def __init__(self, pair: IssuedCertificate) -> None:
        self.pair = pair
        self._certificate = x509.load_pem_x509_certificate(pair.chain.encode())
        self._key = _loaded(pair.key)

    @classmethod
    def create(cls, fleet: str) -> "Issuer":
        """Create the authority of a fleet, with a new key."""
        name = _name(f"svc fleet {fleet}")
        return cls(_certify(name, name, None, (x509.BasicConstraints(True, 0), True), _key_usage(signs=True)))

    def issue(self, node: str, address: str) -> IssuedCertificate:
        """Return a certificate and a new key for a node at a host name or IP address."""
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        return _certify(
            _name(node),
            self._certificate.subject,
            self._key,
            (x509.BasicConstraints(False, None), True),
            _key_usage(signs=False),
            (x509.SubjectAlternativeName([x509.DNSName(node), _general_name(address)]), False),
            (x509.ExtendedKeyUsage(usages), False),
            (x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), False),
        )


def new_key() -> str:
    """Return a new private key (P-256), as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def self_signed(domain: str) -> IssuedCertificate:
    """Return a certificate for the time before the first one of an authority. No client trusts it."""
    names = x509.SubjectAlternativeName([x509.DNSName(domain)])
    return _certify(_name("svc"), _name("svc"), None, (names, False))


def fingerprint(certificate: str) -> str:
    """Return the SHA-256 of a certificate (PEM), in hexadecimal digits. Raises `ValueError`."""
    return x509.load_pem_x509_certificate(certificate.encode()).fingerprint(hashes.SHA256()).hex()


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _general_name(address: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(address))
    except ValueError:
        return x509.DNSName(address)


def _certify(
    subject: x509.Name,
    issuer: x509.Name,
    signer: ec.EllipticCurvePrivateKey | None,
    *extensions: tuple[x509.ExtensionType, bool],
) -> IssuedCertificate:
    """Return a new key and its certificate by the key of a signer, or by itself."""
    pem, begin = new_key(), datetime.datetime.now(datetime.UTC) - _BACKDATED
    key = _loaded(pem)
    builder = x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(begin).not_valid_after(begin + VALIDITY)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    for extension, critical in ((identifier, False), *extensions):
        builder = builder.add_extension(extension, critical)
    certificate = builder.sign(signer or key, hashes.SHA256()).public_bytes(Encoding.PEM)
    return IssuedCertificate(certificate.decode(), pem)


def _loaded(pem: str) -> ec.EllipticCurvePrivateKey:
    key = load_pem_private_key(pem.encode(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key


def _key_usage(*, signs: bool) -> tuple[x509.KeyUsage, bool]:
    unused = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
    others = dict.fromkeys((*unused, "encipher_only", "decipher_only"), False)
    return x509.KeyUsage(digital_signature=True, key_cert_sign=signs, crl_sign=signs, **others), True
