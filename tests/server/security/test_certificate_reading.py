"""The end of a certificate, read without the library that makes certificates."""

import base64
from datetime import UTC, datetime

import pytest
from cryptography import x509
from hypothesis import given
from hypothesis import strategies as st

from miniqueue.errors import CertificateError
from miniqueue.server.security.certificate_reading import ends_at
from miniqueue.server.security.local_authority import LocalAuthority

# Both sides of the years where the encoding changes, and of the one where its century does.
MOMENTS = [datetime(year, 2, 3, 4, 5, 6, tzinfo=UTC) for year in (1961, 1990, 2026, 2038, 2041, 2060)]


def pem_of(der):
    return b"-----BEGIN CERTIFICATE-----\n" + base64.encodebytes(der) + b"-----END CERTIFICATE-----\n"


@pytest.mark.parametrize("now", MOMENTS, ids=lambda moment: str(moment.year))
def test_the_end_is_the_one_that_cryptography_reads(now):
    pem = LocalAuthority.make(now).to_pem().certificate
    assert ends_at(pem) == x509.load_pem_x509_certificate(pem).not_valid_after_utc


def test_the_first_certificate_of_a_chain_counts():
    authority = LocalAuthority.make(MOMENTS[2])
    server = authority.issue(MOMENTS[2]).certificate
    assert ends_at(b"a comment\n" + server + authority.to_pem().certificate) == ends_at(server)


@pytest.mark.parametrize("pem", [b"", b"junk", b"-----BEGIN CERTIFICATE-----"])
def test_a_file_without_a_certificate_is_refused(pem):
    with pytest.raises(CertificateError, match="no PEM certificate"):
        ends_at(pem)


@given(st.binary(max_size=60))
def test_damaged_bytes_are_a_certificate_error(der):
    with pytest.raises(CertificateError):
        ends_at(pem_of(der))
