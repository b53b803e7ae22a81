"""What is ours in a configuration of Hypercorn: the limits that it does not know.

Hypercorn hands its configuration, and nothing else of ours, to every connection.
"""

from dataclasses import dataclass

from hypercorn.config import Config

from miniqueue.server.h2guard.deadlines import (
    BODY_STALL_SECONDS,
    KEEP_ALIVE_SECONDS,
    STALL_SECONDS,
    TLS_HANDSHAKE_SECONDS,
)
from miniqueue.server.refusals import Refusals

MAX_HEADER_BYTES = 8192


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """What holds for all connections of a listener.

    Attributes:
      refusals: where refusals are counted.
      idle_seconds: how long a connection may have no request.
      body_seconds: how long the next part of a body may take.
      handshake_seconds: how long TLS may take to be agreed on.
      max_header_bytes: of one request: over HTTP/2 as HTTP/2 counts them, over HTTP/1.1 with the request line.
      stall_seconds: how long a client may take nothing of a reply that waits for it.
    """

    refusals: Refusals
    stall_seconds: float = STALL_SECONDS
    idle_seconds: float = KEEP_ALIVE_SECONDS
    body_seconds: float = BODY_STALL_SECONDS
    handshake_seconds: float = TLS_HANDSHAKE_SECONDS
    max_header_bytes: int = MAX_HEADER_BYTES


class GuardedConfig(Config):
    """A configuration that carries limits; set them before it serves."""

    limits: HttpLimits


def limits_of(config: Config) -> HttpLimits:
    """Return the limits; raises TypeError for a configuration without."""
    if not isinstance(config, GuardedConfig):
        raise TypeError(f"want a configuration with limits, found {type(config).__name__}")
    return config.limits
