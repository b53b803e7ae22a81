"""The address of a broker and the patience of its client: all that a client consists of, so that it can be rebuilt.

Does not know connections. A pickled client, such as one sent to the executors of Spark, contains only its address.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from miniqueue_client.errors import ConfigError

DEFAULT_URL: Final = "redis://localhost:6379"
DEFAULT_PORT: Final = 6379
DEFAULT_TIMEOUT_SECONDS: Final = 10.0
#: Number of retries, and the shortest and longest pause before one: about 10 s in all, as a restart may take.
DEFAULT_RETRIES: Final = 10
FIRST_PAUSE_SECONDS: Final = 0.05
LONGEST_PAUSE_SECONDS: Final = 2.0

_SCHEMES: Final = ("redis://", "rediss://")


@dataclass(frozen=True)
class Address:
    """Which broker a client uses, and how long it waits for it.

    Attributes:
      url: `redis://[user[:secret]@]host[:port]`, or `rediss://` for TLS.
      timeout_seconds: maximum time for connecting, and for a reply in addition to the wait of the call itself.
      retries: maximum number of retries; negative: unlimited.
      deduplicates: whether publishes get ids, so that a retry stores nothing twice.
      options: options of redis-py's connections: `username`, `password`, `ssl_ca_certs`, `client_name`, …
    """

    url: str = field(default=DEFAULT_URL, repr=False)
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    retries: int = DEFAULT_RETRIES
    deduplicates: bool = True
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        """Check the URL; raises ConfigError."""
        try:
            _ = urlsplit(self.url).port, (urlsplit(self.url).hostname or "").encode("idna")
        except ValueError:  # whose text can contain a part of the secret
            raise ConfigError(["invalid broker URL; the port must be 0 to 65535, and the host a valid name"]) from None
        if "://" not in self.url:  # all of it could be a secret
            raise ConfigError(["invalid broker URL; must begin with redis:// or rediss://"])
        if not self.url.startswith(_SCHEMES):
            raise ConfigError([f"invalid broker URL: {self}; must be redis://host:port or rediss://host:port"])
        if any("@" in part for part in urlsplit(self.url)[2:]):
            # An unescaped "/" or "#" in a secret ends the host early, so the text that follows can be secret.
            raise ConfigError(["invalid broker URL: @ after the host; encode / ? # before it as %2F, %3F, %23"])

    def __str__(self) -> str:
        """Return the URL without user and secret, for logs and errors."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"

    def pause_seconds(self, failure_count: int) -> float | None:
        """Return how long to wait after that many failures; None if there are no more attempts.

        The pauses double, up to the longest one. Each is a random part of that, so that clients that lose a broker at
        the same time do not return at the same time.
        """
        if 0 <= self.retries < failure_count:
            return None
        longest_seconds: float = FIRST_PAUSE_SECONDS * 2 ** min(failure_count, 20)
        return min(LONGEST_PAUSE_SECONDS, random.random() * longest_seconds)

    def span_attributes(self) -> dict[str, object]:
        """Return the attributes of the broker in traces: without the user and the secret."""
        parts = urlsplit(self.url)
        return {"server.address": parts.hostname or "localhost", "server.port": parts.port or DEFAULT_PORT}

    def pool_options(self) -> dict[str, Any]:
        """Return the options of a pool of redis-py, except the URL.

        The pool retries nothing by itself, because only the call knows whether it can be repeated.
        """
        return {
            "socket_timeout": self.timeout_seconds,
            "socket_connect_timeout": self.timeout_seconds,
            "socket_keepalive": True,
            **self.options,
            "protocol": 3,
        }
