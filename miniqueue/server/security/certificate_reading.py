"""Two facts from a certificate: when it expires, and the subject of a client's certificate.

The expiry is read at every startup. Importing `cryptography` for one date would take about 30 ms, and the standard
library reads certificates of connections only. The date has a fixed position, so a few steps lead to it:

    Certificate  SEQUENCE
      tbs        SEQUENCE
        version  [0], may be absent
        serial, signature algorithm, issuer
        validity SEQUENCE
          notBefore, notAfter      UTCTime YYMMDDhhmmssZ or GeneralizedTime YYYYMMDDhhmmssZ

Source: RFC 5280, section 4.1. This validates nothing: OpenSSL has accepted the certificate before.

The subject of a client's certificate is returned in the form of RFC 4514:

    DER: O=Example, CN=ada  ──▶  CN=ada,O=Example      the output of openssl x509 -subject -nameopt RFC2253

TLS has verified the client's certificate against `-client-ca` before. Knows no users.
"""

import base64
import re
from datetime import UTC, datetime
from typing import Any

from miniqueue.errors import CertificateError

_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)
_VERSION_TAG = 0xA0
_UTC_TIME_TAG = 0x17


def ends_at(pem: bytes) -> datetime:
    """Return the moment (UTC) after which the first certificate in `pem` is no longer valid.

    Raises:
      CertificateError: there is no certificate, or it is damaged.
    """
    block = _PEM.search(pem)
    if block is None:
        raise CertificateError(["no PEM certificate in this file"])
    try:
        return _not_after(base64.b64decode(block[1]))
    except (ValueError, IndexError) as error:
        raise CertificateError(["the certificate is damaged"]) from error


def _not_after(der: bytes) -> datetime:
    _, certificate, _ = _element(der, 0)
    _, at, _ = _element(der, certificate)
    tag, _, end = _element(der, at)
    for _ in range(4 if tag == _VERSION_TAG else 3):  # skip the elements before the validity
        _, _, at = _element(der, at)
    _, not_before, _ = _element(der, at)
    _, _, not_after = _element(der, not_before)
    tag, start, end = _element(der, not_after)
    return _moment(tag, der[start:end].decode("ascii"))


def _element(der: bytes, at: int) -> tuple[int, int, int]:
    """Return the tag of the element at `at`, and the start and the end of its content."""
    length, start = der[at + 1], at + 2
    if length >= 0x80:  # the low bits are the number of bytes of the length, which follows
        start += length & 0x7F
        length = int.from_bytes(der[at + 2 : start])
    return der[at], start, start + length


def _moment(tag: int, text: str) -> datetime:
    if tag == _UTC_TIME_TAG:  # two digits for a year from 1950 to 2049
        text = ("19" if text >= "50" else "20") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


#: Key of the subject in the `state` of a connection's ASGI scopes.
STATE_KEY = "client_certificate"


def subject_of(ssl_object: Any) -> str:  # noqa: ANN401 - ssl.SSLObject, or uvloop's class
    """Return the subject of the client's certificate; empty without TLS or without a certificate."""
    encoded = ssl_object.getpeercert(True) if ssl_object is not None else None
    if not encoded:
        return ""
    from cryptography import x509  # noqa: PLC0415 - takes 50 ms; only needed with -client-ca

    return x509.load_der_x509_certificate(encoded).subject.rfc4514_string()
