"""A certificate authority for one machine, so that the first startup requires no certificate from elsewhere.

    ca.pem          "miniqueue local CA", 10 years, can sign for localhost, 127.0.0.1, and ::1 only
      └─ server     localhost, 127.0.0.1, ::1; 397 days, the maximum that browsers accept

The name constraints make it safe to trust: a thief of its key can impersonate localhost, and nothing else. This module
converts PEM to PEM, and uses no file and no clock. It imports `cryptography`, which takes longer than the rest of a
startup, so only code that creates a certificate may import it.

Source: RFC 5280, sections 4.2.1 (extensions) and 4.2.1.10 (name constraints).
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address, ip_network

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from miniqueue.errors import CertificateError

_AUTHORITY_NAME = "miniqueue local CA"
_AUTHORITY_LIFE = timedelta(days=3652)
_SERVER_LIFE = timedelta(days=397)
_CLOCK_SKEW = timedelta(hours=1)  # so that a client whose clock is slow accepts a new certificate
_HOST = "localhost"
_ADDRESSES = ("127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class PemPair:
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes


class LocalAuthority:
    """The authority, with its private key."""

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self._certificate = certificate
        self._key = key

    @classmethod
    def make(cls, now: datetime) -> "LocalAuthority":
        """Create an authority, valid from `now` (with a time zone)."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name(_AUTHORITY_NAME)
        builder = _builder(name, name, key.public_key(), now - _CLOCK_SKEW, now + _AUTHORITY_LIFE)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_key_usage(key_cert_sign=True, crl_sign=True), critical=True)
        builder = builder.add_extension(_name_constraints(), critical=True)
        return cls(builder.sign(key, SHA256()), key)

    @classmethod
    def load(cls, pair: PemPair) -> "LocalAuthority":
        """Return the authority stored in `pair`.

        Raises:
          CertificateError: `pair` is not PEM, or its key is encrypted, of another type, or of another certificate.
        """
        try:
            certificate = x509.load_pem_x509_certificate(pair.certificate)
            key = load_pem_private_key(pair.key, password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise CertificateError(["the authority's certificate or key cannot be read"]) from error
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
            raise CertificateError(["the authority's key does not match its certificate"])
        return cls(certificate, key)

    @property
    def ends_at(self) -> datetime:
        """When the authority expires; certificates that it signs expire no later."""
        return self._certificate.not_valid_after_utc

    def to_pem(self) -> PemPair:
        """Return the authority in the form in which it is stored."""
        return PemPair(self._certificate.public_bytes(Encoding.PEM), _key_pem(self._key))

    def issue(self, now: datetime) -> PemPair:
        """Create a key, and a certificate for it with the names of this machine."""
        key = ec.generate_private_key(ec.SECP256R1())
        return PemPair(self._sign(key.public_key(), now), _key_pem(key))

    def renew(self, certificate_pem: bytes, now: datetime) -> bytes | None:
        """Create a certificate for the key of an old one; return None if this authority did not issue the old one."""
        try:
            certificate = x509.load_pem_x509_certificate(certificate_pem)
            certificate.verify_directly_issued_by(self._certificate)
        except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
            return None
        return self._sign(certificate.public_key(), now)

    def _sign(self, public_key: CertificatePublicKeyTypes, now: datetime) -> bytes:
        ends_at = min(now + _SERVER_LIFE, self.ends_at)
        builder = _builder(_name(_HOST), self._certificate.subject, public_key, now - _CLOCK_SKEW, ends_at)
        for extension, critical in (
            (x509.BasicConstraints(ca=False, path_length=None), True),
            (_key_usage(digital_signature=True), True),
            (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),
            (_server_names(), False),
            (x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), False),
        ):
            builder = builder.add_extension(extension, critical=critical)
        return builder.sign(self._key, SHA256()).public_bytes(Encoding.PEM)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public_key: CertificatePublicKeyTypes,
    starts_at: datetime,
    ends_at: datetime,
) -> x509.CertificateBuilder:
    """Return a builder with the parts that all certificates have."""
    builder = x509.CertificateBuilder(issuer, subject, public_key, x509.random_serial_number())
    builder = builder.not_valid_before(starts_at).not_valid_after(ends_at)
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _server_names() -> x509.SubjectAlternativeName:
    addresses = [x509.IPAddress(ip_address(address)) for address in _ADDRESSES]
    return x509.SubjectAlternativeName([x509.DNSName(_HOST), *addresses])


def _name_constraints() -> x509.NameConstraints:
    addresses = [x509.IPAddress(ip_network(address)) for address in _ADDRESSES]  # each a network of a single address
    return x509.NameConstraints(permitted_subtrees=[x509.DNSName(_HOST), *addresses], excluded_subtrees=None)


def _key_usage(
    *, digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False
) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        encipher_only=False,
        decipher_only=False,
    )


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
