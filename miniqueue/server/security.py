"""The certificate of the HTTP listener: found, made on the first start, renewed, and checked.

    both files there     use them; when they end within a week, renew them if they are ours, else warn
    neither there        make them, with a local authority beside them, if the operator named no others
    one of them there    refuse: guessing could overwrite a key that somebody needs

Files that the operator named are never written. Making certificates loads `cryptography`, using
them does not.
"""

import os
import ssl
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from miniqueue.errors import CertificateError
from miniqueue.server.escaping import escape
from miniqueue.server.expiry import ends_at
from miniqueue.server.file_access import Account, explained, make_private, open_regular, read_regular
from miniqueue.server.private_files import FileToWrite, locked, write_files

if TYPE_CHECKING:
    from miniqueue.server.local_authority import LocalAuthority

_RENEW_BEFORE = timedelta(days=7)
_PUBLIC = 0o644
_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"  # for TLS 1.2: what RFC 9113, appendix A, leaves for HTTP/2
#: For HTTP, the best first.
HTTP_PROTOCOLS = ("h2", "http/1.1")


@dataclass(frozen=True, slots=True)
class Certificates:
    """A certificate and key that can be used, and what the operator should hear about them."""

    cert: Path
    key: Path
    created: tuple[Path, ...] = ()
    """The files written just now."""
    hint: str = ""
    """How clients come to trust the certificate; empty when it is not from the local authority."""
    warning: str = ""
    """That it ends soon, or has ended, and could not be renewed; empty when all is well."""
    corrected: tuple[Path, ...] = ()
    """The private keys that a group of this process could write to until now."""


def ensure_certificates(cert: Path, key: Path, *, may_create: bool, now: datetime) -> Certificates:
    """Return a certificate and key that can be used, made or renewed when need be.

    Args:
      cert: PEM, the server's certificate first, then those between it and its root.
      key: PEM, not encrypted.
      may_create: whether miniqueue may write both, and `ca.pem` and `ca-key.pem` beside `cert`.
      now: with a time zone.

    Raises:
      CertificateError: one line that names the file and what is wrong with it.
    """
    created: tuple[Path, ...] = ()
    warning = ""
    try:
        if may_create and not _are_both_there(cert, key):
            created = _create(cert, key, now)
        server_tls_context(cert, key)
        if _ends_at(cert) - now < _RENEW_BEFORE:
            created = _renew(cert, now) if may_create else ()
            warning = "" if created else _warning(cert, may_create)
    except OSError as error:
        raise CertificateError([f"certificate {_shown(cert)}: {explained(error, cert)}"]) from error
    corrected = tuple(_made_private((key, _authority_paths(cert)[1]))) if may_create else ()
    return Certificates(cert, key, created, _hint(cert) if may_create else "", warning, corrected)


def server_tls_context(
    cert: Path,
    key: Path,
    *,
    protocols: Sequence[str] = HTTP_PROTOCOLS,
    client_ca: Path | None = None,
    requires_client_certificate: bool = True,
) -> ssl.SSLContext:
    """Return the context of a TLS listener: TLS 1.2 or later.

    Args:
      cert: PEM, the server's certificate first, then those between it and its root.
      key: PEM, not encrypted.
      protocols: what ALPN offers, the best first; HTTP/2 and then HTTP/1.1 unless said otherwise.
      client_ca: PEM, the authorities of which every client must have a certificate; None to ask for none.
      requires_client_certificate: False if clients without a certificate are accepted too.

    Raises:
      CertificateError: one line that names the file and what is wrong with it.
    """
    _require(cert, "certificate", b"-----BEGIN CERTIFICATE-----")
    _require(key, "key", b"PRIVATE KEY-----")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(_CIPHERS)
    context.set_alpn_protocols(list(protocols))
    try:
        context.load_cert_chain(cert, key, password=lambda: _refuse_password(key))
    except ssl.SSLError as error:
        raise CertificateError([_load_problem(cert, key, error)]) from error
    if client_ca is not None:
        _load_client_authorities(context, client_ca)
        context.verify_mode = ssl.CERT_REQUIRED if requires_client_certificate else ssl.CERT_OPTIONAL
    return context


def _load_client_authorities(context: ssl.SSLContext, client_ca: Path) -> None:
    _require(client_ca, "client authority", b"-----BEGIN CERTIFICATE-----")
    try:
        context.load_verify_locations(client_ca)
    except ssl.SSLError as error:
        raise CertificateError([f"client authority {_shown(client_ca)}: it is damaged ({error.reason})"]) from error


def _are_both_there(cert: Path, key: Path) -> bool:
    """Tell whether both files exist; refuse when only one does."""
    there, missing = os.path.exists(cert), os.path.exists(key)
    if there != missing:
        present, absent = (cert, key) if there else (key, cert)
        raise CertificateError(
            [
                f"{_shown(present)} is there but {_shown(absent)} is missing: "
                f"restore it, or remove {_shown(present)} to have both made anew"
            ]
        )
    return there


def _create(cert: Path, key: Path, now: datetime) -> tuple[Path, ...]:
    """Write a certificate and key from the local authority, which is made too when there is none."""
    cert.parent.mkdir(parents=True, exist_ok=True)
    with locked(cert.parent):
        if _are_both_there(cert, key):  # another process was first
            return ()
        authority, files = _authority(cert, now)
        pair = authority.issue(now)
        files += [FileToWrite(key, pair.key), FileToWrite(cert, pair.certificate, _PUBLIC)]
        write_files(files)
    return tuple(file.path for file in files)


def _authority(cert: Path, now: datetime) -> "tuple[LocalAuthority, list[FileToWrite]]":
    """Return the authority beside `cert`, or a new one and the files that will keep it."""
    from miniqueue.server.local_authority import (  # noqa: PLC0415 - loads cryptography
        LocalAuthority,
        PemPair,
    )

    ca, ca_key = _authority_paths(cert)
    if not _are_both_there(ca, ca_key):
        made = LocalAuthority.make(now)
        pair = made.to_pem()
        return made, [FileToWrite(ca_key, pair.key), FileToWrite(ca, pair.certificate, _PUBLIC)]
    try:
        authority = LocalAuthority.load(PemPair(read_regular(ca), read_regular(ca_key)))
    except CertificateError as error:
        raise CertificateError([f"{_shown(ca)}, {_shown(ca_key)}: {error}"]) from error
    if authority.ends_at - now < _RENEW_BEFORE:
        raise CertificateError([f"{_shown(ca)}: it has ended; remove it and {_shown(ca_key)} for a new one"])
    return authority, []


def _renew(cert: Path, now: datetime) -> tuple[Path, ...]:
    """Write a new certificate for the same key; nothing when the authority that issued the old one cannot."""
    if not all(map(os.path.exists, _authority_paths(cert))):
        return ()
    try:
        with locked(cert.parent):
            authority, _ = _authority(cert, now)
            renewed = authority.renew(read_regular(cert), now)
            if renewed is None:
                return ()
            write_files([FileToWrite(cert, renewed, _PUBLIC)])
    except (CertificateError, OSError):  # the old one may do for some days: a reason to warn, not to stop
        return ()
    return (cert,)


def _made_private(keys: Sequence[Path]) -> Iterator[Path]:
    """Yield the keys that a group of this process could write to, and no longer can."""
    account = Account.current()
    for key in keys:
        with suppress(OSError):  # the authority may be elsewhere
            descriptor = open_regular(key)
            try:
                if make_private(descriptor, account):
                    yield key
            finally:
                os.close(descriptor)


def _authority_paths(cert: Path) -> tuple[Path, Path]:
    return cert.with_name("ca.pem"), cert.with_name("ca-key.pem")


def _hint(cert: Path) -> str:
    ca, _ = _authority_paths(cert)
    return f"clients trust it with {_shown(ca)}: curl --cacert {_shown(ca)} …" if ca.exists() else ""


def _warning(cert: Path, may_create: bool) -> str:
    remedy = "remove the files beside it to have all made anew" if may_create else "replace it"
    return f"certificate {_shown(cert)} is valid until {_ends_at(cert):%Y-%m-%d %H:%M} UTC only; {remedy}"


def _ends_at(cert: Path) -> datetime:
    try:
        return ends_at(read_regular(cert))
    except CertificateError as error:
        raise CertificateError([f"certificate {_shown(cert)}: {error}"]) from error


def _require(path: Path, role: str, marker: bytes) -> None:
    """Refuse a file that cannot be read or does not look like what it should be."""
    try:
        content = read_regular(path)
    except OSError as error:
        raise CertificateError([f"{role} {_shown(path)}: {explained(error, path)}"]) from error
    if marker not in content:
        raise CertificateError([f"{role} {_shown(path)}: no {role} in PEM form in this file"])


def _refuse_password(key: Path) -> str:
    # Without this OpenSSL would ask on the terminal, and a service would hang.
    raise CertificateError([f"key {_shown(key)}: it is encrypted; miniqueue needs it without a passphrase"])


def _load_problem(cert: Path, key: Path, error: ssl.SSLError) -> str:
    """Find out which of the two files OpenSSL means; it does not say."""
    if error.reason == "KEY_VALUES_MISMATCH":
        return f"key {_shown(key)}: it does not fit the certificate {_shown(cert)}"
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cert)
    except ssl.SSLError:
        return f"certificate {_shown(cert)}: it is damaged ({error.reason})"
    return f"key {_shown(key)}: it is damaged ({error.reason})"


def _shown(path: Path) -> str:
    return escape(str(path))
