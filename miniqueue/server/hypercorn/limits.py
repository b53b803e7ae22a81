"""Limits of a listener and deadlines of clients, and how the connections get them.

Hypercorn passes its configuration, and nothing else of ours, to every connection; so `GuardedConfig` has the limits.

Deadlines are checked once a second for each connection, with a counter that grows whenever something progresses:

    check at 0 s     mark 17     age 0
    check at 1 s     mark 17     age 1
    check at 2 s     mark 18     age 0: it has progressed
    check at 3 s     no mark     age 0: nothing is awaited

Whether it has progressed is seen at the next check, so that a frame, a part of a body, or a write requires no clock
reading and no timer. Knows no clock.
"""

from dataclasses import dataclass, field

from hypercorn.config import Config

from miniqueue.broker.runtime.accounts import Memory
from miniqueue.broker.runtime.share import TimeShare
from miniqueue.server.asgi.refusals import Refusals
from miniqueue.server.hypercorn.frame_turns import FrameTurns

#: Interval of the checks.
CHECK_SECONDS = 1.0

#: Maximum duration of a TLS handshake.
TLS_HANDSHAKE_SECONDS = 10.0
#: Maximum time from the first byte of a request's headers, or of any other frame, to the last.
HEADERS_SECONDS = 10.0
#: Maximum time until the next part of a request's body, unless the reply has begun.
BODY_STALL_SECONDS = 10.0
#: Maximum time for the whole body; three times that for its next part if that is more; plus a second for every
#: `BODY_BYTES_PER_SECOND` bytes that have arrived.
BODY_SECONDS = 30.0
BODY_BYTES_PER_SECOND = 16_384
#: Maximum time of a connection without a request.
KEEP_ALIVE_SECONDS = 75.0
#: Default of the maximum time in which a client accepts no data of a reply that is ready.
STALL_SECONDS = 30.0
#: Maximum time in which a client accepts no data that was written to its connection.
WRITE_SECONDS = 60.0
#: Maximum time for sending the last frame to a client that is disconnected.
GOODBYE_SECONDS = 3.0
#: The memory of an idle connection, and of a request in progress, about.
CONNECTION_BYTES = 70 << 10
REQUEST_BYTES = 20 << 10
#: From this size on, the parts of bodies that are in memory are charged.
CHARGED_BYTES = 64 << 10
#: From this size on, parts of replies that wait for the client are charged; a request in progress covers smaller ones.
MAX_UNREAD_BYTES = 8 << 10
#: Time between that and the end of the connection: TLS for the next one costs 2 ms of CPU time, and a client that was
#: disconnected need not reconnect quickly. Clients that do not wait for the end meet the limit of connections.
LINGER_SECONDS = 0.2


@dataclass(slots=True)
class Stillness:
    """Measures how long something has made no progress."""

    _mark: object = None
    _since_seconds: float = 0.0

    def age(self, mark: object, now_seconds: float) -> float:
        """Return how long `mark` has been unchanged, in seconds; 0 for None, which means that nothing is awaited."""
        if mark is None or mark != self._mark:
            self._mark, self._since_seconds = mark, now_seconds
        return now_seconds - self._since_seconds


class BodyDeadline:
    """The deadline of one request's body."""

    __slots__ = ("_begun", "_seconds", "_stall")

    def __init__(self, stall_seconds: float = BODY_STALL_SECONDS) -> None:
        self._seconds = stall_seconds
        self._begun = Stillness()
        self._stall = Stillness()

    def is_over(self, received_bytes: int, unread_bytes: int, now_seconds: float) -> bool:
        """Whether the client was too slow; never while the application has unread data."""
        total_seconds = self._begun.age("begun", now_seconds)
        stall_seconds = self._stall.age(None if unread_bytes else received_bytes, now_seconds)
        return not unread_bytes and (
            stall_seconds >= self._seconds
            or total_seconds >= max(BODY_SECONDS, 3 * self._seconds) + received_bytes / BODY_BYTES_PER_SECOND
        )


#: Default of the maximum size of a request's headers.
MAX_HEADER_BYTES = 8192


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """The limits of all connections of a listener.

    Attributes:
      refusals: counts rejected requests.
      idle_seconds: maximum time of a connection without a request.
      body_seconds: maximum time until the next part of a body.
      handshake_seconds: maximum duration of a TLS handshake.
      max_header_bytes: maximum size of a request's headers: as HTTP/2 counts them; HTTP/1.1: with the request line.
      stall_seconds: maximum time in which a client accepts no data of a reply that is ready.
      memory: the accounts of the memory that clients use.
      frame_turns: shares the event loop between HTTP/2 connections.
      beginnings: divides the time of the event loop between what new connections need and all other work.
      is_reserved: whether clients are served even if the memory of the process is used up, as monitoring is.
    """

    refusals: Refusals
    stall_seconds: float = STALL_SECONDS
    idle_seconds: float = KEEP_ALIVE_SECONDS
    body_seconds: float = BODY_STALL_SECONDS
    handshake_seconds: float = TLS_HANDSHAKE_SECONDS
    max_header_bytes: int = MAX_HEADER_BYTES
    memory: Memory = field(default_factory=Memory)
    frame_turns: FrameTurns = field(default_factory=FrameTurns)
    beginnings: TimeShare = field(default_factory=TimeShare)
    is_reserved: bool = False

    @property
    def is_memory_full(self) -> bool:
        """Whether there is no memory for another connection or request."""
        return self.memory.is_full and not self.is_reserved


class GuardedConfig(Config):
    """A configuration with limits, which must be set before it is used."""

    limits: HttpLimits


def limits_of(config: Config) -> HttpLimits:
    """Return the limits of a configuration; raises TypeError if it has none."""
    if not isinstance(config, GuardedConfig):
        raise TypeError(f"the configuration has no limits: {type(config).__name__}; must be a GuardedConfig")
    return config.limits
