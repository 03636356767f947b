"""Certificate authority of a fleet, with whose certificates nodes authenticate each other (mutual TLS).

Import it where it is used: its own imports take a tenth of a service's start.
"""

import datetime
import hashlib
import ipaddress
from dataclasses import dataclass

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

VALIDITY = datetime.timedelta(days=3650)
_BACKDATED = datetime.timedelta(days=1)
"""Certificates are valid at once on nodes whose clock is behind."""


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, as PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """Issues certificates for nodes."""

    def __init__(self, pair: KeyPair) -> None:
        self.pair = pair
        self._certificate = x509.load_pem_x509_certificate(pair.certificate)
        key = load_pem_private_key(pair.key, None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        self._key = key

    @classmethod
    def create(cls, fleet: str) -> "Authority":
        """Return a new authority, valid for ten years."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name(f"svc fleet {fleet}")
        builder = (
            _builder(name, name, key.public_key())
            .add_extension(x509.BasicConstraints(True, 0), critical=True)
            .add_extension(_key_usage(signs=True), critical=True)
        )
        certificate = builder.sign(key, hashes.SHA256())
        return cls(KeyPair(certificate.public_bytes(Encoding.PEM), _pem(key)))

    def issue(self, node: str, address: str) -> KeyPair:
        """Return a certificate and a new key for a node at a host name or IP address."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = [x509.DNSName(node), _general_name(address)]
        builder = (
            _builder(_name(node), self._certificate.subject, key.public_key())
            .add_extension(x509.BasicConstraints(False, None), critical=True)
            .add_extension(_key_usage(signs=False), critical=True)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
                critical=False,
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
        )
        certificate = builder.sign(self._key, hashes.SHA256())
        return KeyPair(certificate.public_bytes(Encoding.PEM), _pem(key))


def fingerprint(certificate: bytes) -> str:
    """Return the SHA-256 of a certificate (PEM), in hexadecimal digits. Raises `ValueError`."""
    return hashlib.sha256(x509.load_pem_x509_certificate(certificate).public_bytes(Encoding.DER)).hexdigest()


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _general_name(address: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(address))
    except ValueError:
        return x509.DNSName(address)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    begin = datetime.datetime.now(datetime.UTC) - _BACKDATED
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + VALIDITY)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _key_usage(*, signs: bool) -> x509.KeyUsage:
    unused = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
    others = dict.fromkeys((*unused, "encipher_only", "decipher_only"), False)
    return x509.KeyUsage(digital_signature=True, key_cert_sign=signs, crl_sign=signs, **others)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
