"""The certificate of the TLS listeners: created at the first startup, renewed, and checked.

    both files exist      use them; if they expire within a week, renew them if miniqueue created them, else warn
    no file exists        create both, with a local authority in the same directory, unless the operator named others
    one file exists       refuse to start: creating the other could overwrite a key that is still needed

Files that the operator named are never written. Creating certificates imports `cryptography`; using them does not.
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
from miniqueue.server.process.escaping import escape
from miniqueue.server.security.certificate_reading import ends_at
from miniqueue.server.security.file_access import Account, explained, make_private, open_regular, read_regular
from miniqueue.server.security.private_files import FileToWrite, locked, write_files

if TYPE_CHECKING:
    from miniqueue.server.security.local_authority import LocalAuthority

_RENEW_BEFORE = timedelta(days=7)
_PUBLIC = 0o644
#: The files in error messages, with their flags.
_CERT, _KEY, _CLIENT_CA = "flag -cert: certificate", "flag -key: key", "flag -client-ca: client authority"
#: The authority of a first startup is in the directory of the certificate.
_BESIDE_CERT = "flag -cert"
#: Ciphers of TLS 1.2: those that RFC 9113, appendix A, allows for HTTP/2.
_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
#: ALPN protocols of HTTP listeners, the preferred one first.
HTTP_PROTOCOLS = ("h2", "http/1.1")


@dataclass(frozen=True, slots=True)
class Certificates:
    """A valid certificate and key, and messages about them for the operator."""

    cert: Path
    key: Path
    created: tuple[Path, ...] = ()
    """The files that were written at this startup."""
    hint: str = ""
    """How clients can trust the certificate; empty if the local authority did not issue it."""
    warning: str = ""
    """A warning that it expires soon or has expired, and could not be renewed; else empty."""
    corrected: tuple[Path, ...] = ()
    """The private keys whose mode was corrected: a group of this process could write to them."""


def ensure_certificates(cert: Path, key: Path, *, may_create: bool, now: datetime) -> Certificates:
    """Return a valid certificate and key; create or renew them if necessary and allowed.

    Args:
      cert: PEM, the server's certificate first, then those between it and its root.
      key: PEM, not encrypted.
      may_create: whether miniqueue may write both, and `ca.pem` and `ca-key.pem` in the directory of `cert`.
      now: the current time, with a time zone.

    Raises:
      CertificateError: one line that names the file and what is wrong with it.
    """
    created: tuple[Path, ...] = ()
    warning = ""
    try:
        if may_create and not _both_exist(cert, key):
            created = _create(cert, key, now)
        server_tls_context(cert, key)
        if _ends_at(cert) - now < _RENEW_BEFORE:
            created = _renew(cert, now) if may_create else ()
            warning = "" if created else _warning(cert, may_create)
    except OSError as error:
        raise CertificateError([f"{_CERT} {_shown(cert)}: {explained(error, cert)}"]) from error
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
      protocols: the ALPN protocols, the preferred one first; default: HTTP/2, then HTTP/1.1.
      client_ca: PEM, the authorities that must have signed each client's certificate; None: clients need none.
      requires_client_certificate: False if clients without a certificate are accepted too.

    Raises:
      CertificateError: one line that names the file and what is wrong with it.
    """
    _require(cert, _CERT, b"-----BEGIN CERTIFICATE-----")
    _require(key, _KEY, b"PRIVATE KEY-----")
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
    _require(client_ca, _CLIENT_CA, b"-----BEGIN CERTIFICATE-----")
    try:
        context.load_verify_locations(client_ca)
    except ssl.SSLError as error:
        raise CertificateError([f"{_CLIENT_CA} {_shown(client_ca)}: it is damaged ({error.reason})"]) from error


def _both_exist(cert: Path, key: Path, flags: str = "flags -cert, -key") -> bool:
    """Return whether both files exist; raise CertificateError, naming `flags`, if only one does."""
    has_cert, has_key = os.path.exists(cert), os.path.exists(key)
    if has_cert != has_key:
        present, absent = (cert, key) if has_cert else (key, cert)
        raise CertificateError(
            [
                f"{flags}: {_shown(present)} exists, but {_shown(absent)} is missing; "
                f"restore it, or remove {_shown(present)} to have both created again"
            ]
        )
    return has_cert


def _create(cert: Path, key: Path, now: datetime) -> tuple[Path, ...]:
    """Write a certificate and key of the local authority, and the authority itself if there is none."""
    cert.parent.mkdir(parents=True, exist_ok=True)
    with locked(cert.parent):
        if _both_exist(cert, key):  # another process created them meanwhile
            return ()
        authority, files = _authority(cert, now)
        pair = authority.issue(now)
        files += [FileToWrite(key, pair.key), FileToWrite(cert, pair.certificate, _PUBLIC)]
        write_files(files)
    return tuple(file.path for file in files)


def _authority(cert: Path, now: datetime) -> "tuple[LocalAuthority, list[FileToWrite]]":
    """Return the authority in the directory of `cert`, or a new one and the files to write for it."""
    from miniqueue.server.security.local_authority import LocalAuthority, PemPair  # noqa: PLC0415 - loads cryptography

    ca, ca_key = _authority_paths(cert)
    if not _both_exist(ca, ca_key, _BESIDE_CERT):
        new = LocalAuthority.make(now)
        pair = new.to_pem()
        return new, [FileToWrite(ca_key, pair.key), FileToWrite(ca, pair.certificate, _PUBLIC)]
    try:
        authority = LocalAuthority.load(PemPair(read_regular(ca), read_regular(ca_key)))
    except CertificateError as error:
        raise CertificateError([f"{_BESIDE_CERT}: {_shown(ca)}, {_shown(ca_key)}: {error}"]) from error
    if authority.ends_at - now < _RENEW_BEFORE:
        raise CertificateError(
            [f"{_BESIDE_CERT}: {_shown(ca)}: it has expired; remove it and {_shown(ca_key)} to have both created again"]
        )
    return authority, []


def _renew(cert: Path, now: datetime) -> tuple[Path, ...]:
    """Write a new certificate for the same key, if the local authority issued the old one; return the written files."""
    if not all(map(os.path.exists, _authority_paths(cert))):
        return ()
    try:
        with locked(cert.parent):
            authority, _ = _authority(cert, now)
            renewed = authority.renew(read_regular(cert), now)
            if renewed is None:
                return ()
            write_files([FileToWrite(cert, renewed, _PUBLIC)])
    except (CertificateError, OSError):
        # The old certificate may be valid for some days, so the caller warns instead of refusing to start.
        return ()
    return (cert,)


def _made_private(keys: Sequence[Path]) -> Iterator[Path]:
    """Correct the modes of keys that a group of this process can write to; yield those keys."""
    account = Account.current()
    for key in keys:
        with suppress(OSError):  # the authority's key may be elsewhere
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
    remedy = "remove the files in its directory to have all created again" if may_create else "replace it"
    return f"certificate {_shown(cert)} is valid until {_ends_at(cert):%Y-%m-%d %H:%M} UTC only; {remedy}"


def _ends_at(cert: Path) -> datetime:
    try:
        return ends_at(read_regular(cert))
    except CertificateError as error:
        raise CertificateError([f"{_CERT} {_shown(cert)}: {error}"]) from error


def _require(path: Path, role: str, marker: bytes) -> None:
    """Raise CertificateError if a file cannot be read or lacks `marker`; `role` is `_CERT`, `_KEY`, or `_CLIENT_CA`."""
    try:
        content = read_regular(path)
    except OSError as error:
        raise CertificateError([f"{role} {_shown(path)}: {explained(error, path)}"]) from error
    if marker not in content:
        raise CertificateError([f"{role} {_shown(path)}: no {role.partition(': ')[2]} in PEM form in this file"])


def _refuse_password(key: Path) -> str:
    # Without this callback, OpenSSL would ask for a passphrase on the terminal, and a service would hang.
    raise CertificateError([f"{_KEY} {_shown(key)}: it is encrypted; miniqueue requires a key without a passphrase"])


def _load_problem(cert: Path, key: Path, error: ssl.SSLError) -> str:
    """Return the error message with the file that is wrong; OpenSSL does not report which."""
    if error.reason == "KEY_VALUES_MISMATCH":
        return f"{_KEY} {_shown(key)}: it does not match the certificate {_shown(cert)}"
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cert)
    except ssl.SSLError:
        return f"{_CERT} {_shown(cert)}: it is damaged ({error.reason})"
    return f"{_KEY} {_shown(key)}: it is damaged ({error.reason})"


def _shown(path: Path) -> str:
    return escape(str(path))
