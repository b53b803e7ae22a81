"""When a certificate ends, read from its bytes.

Every start asks this, and `cryptography` would take about 30 ms to load for one date; the standard library
reads a certificate only from a connection. The date has a fixed place, so a walk of a few steps finds it:

    Certificate  SEQUENCE
      tbs        SEQUENCE
        version  [0], may be absent
        serial, signature algorithm, issuer
        validity SEQUENCE
          notBefore, notAfter      UTCTime YYMMDDhhmmssZ or GeneralizedTime YYYYMMDDhhmmssZ

Source: RFC 5280, section 4.1. It is for certificates that OpenSSL has accepted before; it validates nothing.
"""

import base64
import re
from datetime import UTC, datetime

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
        raise CertificateError(["it holds no PEM certificate"])
    try:
        return _not_after(base64.b64decode(block[1]))
    except (ValueError, IndexError) as error:
        raise CertificateError(["its certificate is damaged"]) from error


def _not_after(der: bytes) -> datetime:
    _, certificate, _ = _element(der, 0)
    _, at, _ = _element(der, certificate)
    tag, _, end = _element(der, at)
    for _ in range(4 if tag == _VERSION_TAG else 3):  # up to the validity
        _, _, at = _element(der, at)
    _, not_before, _ = _element(der, at)
    _, _, not_after = _element(der, not_before)
    tag, start, end = _element(der, not_after)
    return _moment(tag, der[start:end].decode("ascii"))


def _element(der: bytes, at: int) -> tuple[int, int, int]:
    """Return tag, start and end of the content of the element at `at`."""
    length, start = der[at + 1], at + 2
    if length >= 0x80:  # the low bits count the bytes of the length itself
        start += length & 0x7F
        length = int.from_bytes(der[at + 2 : start])
    return der[at], start, start + length


def _moment(tag: int, text: str) -> datetime:
    if tag == _UTC_TIME_TAG:  # two digits of the year stand for 1950 to 2049
        text = ("19" if text >= "50" else "20") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)
