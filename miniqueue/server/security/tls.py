"""TLS of all listeners: a renewed certificate is used without a restart.

    SIGHUP, or a check every 30 s finds changed files ─▶ new contexts ─ all valid ─▶ new connections use them
                                                                      └ else ─────▶ the old ones stay; logged

A connection keeps the certificate with which it began. Knows files and contexts, but no listeners.
"""

import ssl
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import structlog

from miniqueue.errors import CertificateError
from miniqueue.server.security.certificate_reading import ends_at
from miniqueue.server.security.certificates import server_tls_context
from miniqueue.server.security.file_watch import Identity, identity

log = structlog.get_logger()


class ReloadableContext(ssl.SSLContext):
    """A TLS context whose new connections use the current inner context.

    A server keeps one context as long as it listens. Loading a key that does not match its certificate into a context
    that is in use would leave one half of the pair in it.

    Attributes:
      inner: the context of new connections.
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
      client_ca: PEM, the authorities of the certificates of clients; None: clients need none.
      requires_restart: whether the HTTP server keeps the certificate with which it started.

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
        """When the certificate of new connections expires; the earliest time, if listeners use different ones."""
        return min(self._first_end, self._last_end) if self._requires_restart else self._last_end

    def context(self, protocols: Sequence[str], *, requires_client_certificate: bool = True) -> ssl.SSLContext:
        """Return the context of one more listener.

        Args:
          protocols: the ALPN protocols, the preferred one first.
          requires_client_certificate: False if clients without a certificate are accepted, even with `client_ca`.

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
        """Load the certificate for new connections, or keep the old one; log the result."""
        self._problems = []
        self._replace()

    def reload_if_changed(self) -> None:
        """Load the certificate if its files have changed; log each problem once."""
        if self._identities() != self._loaded:
            self._replace()

    def _replace(self) -> None:
        identities = self._identities()  # before loading, so that the next check finds changes that happen meanwhile
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
        """Return a new context for each listener, and when the certificate expires; raises CertificateError."""
        try:
            server_tls_context(
                self._cert, self._key, client_ca=self._client_ca
            )  # so that it is checked even without listeners
            return [make() for _, make in self._contexts], ends_at(self._cert.read_bytes())
        except OSError as error:  # a file was removed meanwhile
            raise CertificateError([str(error)]) from error

    def _identities(self) -> list[Identity]:
        return [identity(path) for path in (self._cert, self._key, self._client_ca) if path is not None]
