"""Where a broker is and how patiently it is asked: all that a client is made of, so that it can be made again.

Knows no connection. A client that is pickled, as for the executors of Spark, carries this and nothing else.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from miniqueue.errors import ConfigError

DEFAULT_URL: Final = "redis://localhost:6379"
DEFAULT_TIMEOUT_SECONDS: Final = 10.0
#: Tries after the first that fails, and the pause before the first and the longest of them: about 10 s in all.
DEFAULT_RETRIES: Final = 10
FIRST_PAUSE_SECONDS: Final = 0.05
LONGEST_PAUSE_SECONDS: Final = 2.0

_SCHEMES: Final = ("redis://", "rediss://")


@dataclass(frozen=True)
class Address:
    """Where a broker is, and how it is asked.

    Attributes:
      url: `redis://[user[:secret]@]host[:port]`, or `rediss://` for TLS.
      timeout_seconds: how long a connection may take, and a reply beyond the time that the call itself may take.
      retries: tries after the first; negative for no end.
      deduplicates: whether publishes get ids, so that a retry stores nothing twice.
      options: for redis-py's connections, by its names: `username`, `password`, `ssl_ca_certs`, `client_name`, …
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
        except ValueError:  # its text may have a part of the secret
            raise ConfigError(["the address of a broker has no port from 0 to 65535, or no host"]) from None
        if not self.url.startswith(_SCHEMES):
            raise ConfigError([f"the address of a broker is redis://host:port or rediss://host:port, not {self}"])
        if any("@" in part for part in urlsplit(self.url)[2:]):  # behind the host: what is told of it may be secret
            raise ConfigError(["the address of a broker has an @ behind it; in front of one / ? # are %2F, %3F, %23"])

    def __str__(self) -> str:
        """Return it as it can be shown: without user and secret."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"

    def pool_options(self) -> dict[str, Any]:
        """Return what a pool of redis-py takes beside the URL.

        It tries nothing again by itself: what may be asked twice only the call knows.
        """
        return {
            "socket_timeout": self.timeout_seconds,
            "socket_connect_timeout": self.timeout_seconds,
            "socket_keepalive": True,
            **self.options,
            "protocol": 3,
        }
