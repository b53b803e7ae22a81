"""TLS of all listeners: a renewed certificate comes into use without a restart.

    SIGHUP, or other files at a look every 30 s ─▶ new contexts ─ all are good ─▶ new connections use them
                                                                └ one is not ──▶ the old ones stay; the log says why

A connection keeps the certificate that it began with. Knows files and contexts; knows no listener.
"""

import asyncio
import os
import ssl
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

import structlog

from miniqueue.errors import CertificateError
from miniqueue.server.expiry import ends_at
from miniqueue.server.security import server_tls_context

log = structlog.get_logger()

#: A change is in use within a minute.
LOOK_SECONDS = 30.0

#: What tells a file from the one that was there before: also one of the same size and time, and also if a symbolic
#: link on the way to it has changed, as Kubernetes does it. None if it cannot be looked at.
_Identity: TypeAlias = tuple[int, ...] | None


class ReloadableContext(ssl.SSLContext):
    """A TLS context whose new connections use its inner context of the moment.

    A server keeps one context for as long as it listens. To load a pair that does not fit into a context that is in
    use would leave a half of the pair in it.

    Attributes:
      inner: the context of connections that begin from now on.
    """

    def __init__(self, _protocol: int, inner: ssl.SSLContext) -> None:
        self.inner = inner

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """Begin a connection."""
        return self.inner.wrap_bio(incoming, outgoing, server_side, server_hostname, session)


class ServerTls:
    """The certificate of all listeners, and their contexts.

    Args:
      cert: PEM, the server's certificate first, then those between it and its root.
      key: PEM, not encrypted.
      client_ca: PEM, the authorities of the certificates of clients; None to ask for none.
      requires_restart: whether the HTTP server keeps the certificate that it started with.

    Raises:
      CertificateError: the certificate cannot be used.
    """

    def __init__(self, cert: Path, key: Path, client_ca: Path | None = None, *, requires_restart: bool = False) -> None:
        self._cert = cert
        self._key = key
        self._client_ca = client_ca
        self._requires_restart = requires_restart
        self._contexts: list[tuple[ReloadableContext, Callable[[], ssl.SSLContext]]] = []
        self._problems: list[str] = []
        self._loaded = self._identities()
        self._first_end = self._last_end = self._load()[1]

    @property
    def expires_at(self) -> datetime:
        """When the certificate of new connections ends; the first to end if listeners have different ones."""
        return min(self._first_end, self._last_end) if self._requires_restart else self._last_end

    def context(self, protocols: Sequence[str], *, requires_client_certificate: bool = True) -> ssl.SSLContext:
        """Return the context of one more listener.

        Args:
          protocols: what ALPN offers, the best first.
          requires_client_certificate: False if clients without a certificate are accepted, also with `client_ca`.

        Raises CertificateError.
        """

        def make() -> ssl.SSLContext:
            return server_tls_context(
                self._cert,
                self._key,
                protocols=protocols,
                client_ca=self._client_ca,
                requires_client_certificate=requires_client_certificate,
            )

        context = ReloadableContext(ssl.PROTOCOL_TLS_SERVER, make())
        self._contexts.append((context, make))
        return context

    def reload(self) -> None:
        """Load the certificate for new connections, or keep the old one; log what was done."""
        self._problems = []
        self._replace()

    def look(self) -> None:
        """Load the certificate if its files are not those that were loaded; log a problem once."""
        if self._identities() != self._loaded:
            self._replace()

    def _replace(self) -> None:
        identities = self._identities()  # from before, so that the next look finds what changes meanwhile
        try:
            contexts, end = self._load()
        except CertificateError as error:
            if error.problems != self._problems:
                log.error("certificate not loaded; the previous one stays in use", problems=error.problems)
            self._problems = error.problems
            return
        for (context, _), inner in zip(self._contexts, contexts, strict=True):
            context.inner = inner
        self._loaded, self._last_end, self._problems = identities, end, []
        log.info("certificate loaded", valid_until=f"{end.astimezone(UTC):%Y-%m-%d %H:%M} UTC")
        if self._requires_restart:
            log.warning("the HTTP port keeps the previous certificate; Granian requires a restart to load another one")

    def _load(self) -> tuple[list[ssl.SSLContext], datetime]:
        """Return a new context for each listener, and when the certificate ends."""
        try:
            server_tls_context(self._cert, self._key, client_ca=self._client_ca)  # there may be no listener
            return [make() for _, make in self._contexts], ends_at(self._cert.read_bytes())
        except OSError as error:  # a file was replaced meanwhile
            raise CertificateError([str(error)]) from error

    def _identities(self) -> list[_Identity]:
        return [_identity(path) for path in (self._cert, self._key, self._client_ca) if path is not None]


async def watch_certificate(tls: ServerTls, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
    """Look for a changed certificate from time to time, for ever."""
    while True:
        await sleep(LOOK_SECONDS)
        tls.look()


def _identity(path: Path) -> _Identity:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
