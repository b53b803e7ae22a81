"""How long a client may take, and the clock for it.

    look at 0 s     mark 17     age 0
    look at 1 s     mark 17     age 1
    look at 2 s     mark 18     age 0: it has moved
    look at 3 s     no mark     age 0: there is nothing to wait for

Every connection is looked at once a second. What moves has a number that grows; that it has not moved is seen at the
next look, so that a frame, a part of a body or a write costs no reading of a clock and no timer. Knows no clock.
"""

from dataclasses import dataclass

LOOK_SECONDS = 1.0

#: For TLS to be agreed on.
TLS_HANDSHAKE_SECONDS = 10.0
#: For a request's headers, or any other frame, from the first byte to the last.
HEADERS_SECONDS = 10.0
#: For the next part of a request's body, as long as the reply has not begun.
BODY_STALL_SECONDS = 10.0
#: For all of it, or three times as much as for its next part; a second more for as many bytes as this that came.
BODY_SECONDS = 30.0
BODY_BYTES_PER_SECOND = 16_384
#: For a connection without a request, at most.
KEEP_ALIVE_SECONDS = 75.0
#: For a client to take something of a reply that waits for it, unless the operator says otherwise.
STALL_SECONDS = 30.0
#: For a client to take something of what is written to its connection.
WRITE_SECONDS = 60.0
#: For the last words to a client that is sent away.
GOODBYE_SECONDS = 3.0
#: Between these and the end of the connection: TLS with the next one costs 2 ms, and nobody who is sent away need be
#: quick to come back. Who does not wait for the end is held by the limit of connections from an address.
LINGER_SECONDS = 0.2


@dataclass(slots=True)
class Stillness:
    """Since when something has not moved."""

    _mark: object = None
    _since_seconds: float = 0.0

    def age(self, mark: object, now_seconds: float) -> float:
        """Return for how long `mark` has been what it is now, in seconds; 0 for None: there is nothing to wait for."""
        if mark is None or mark != self._mark:
            self._mark, self._since_seconds = mark, now_seconds
        return now_seconds - self._since_seconds


class BodyDeadline:
    """The time for one request's body."""

    __slots__ = ("_begun", "_seconds", "_stall")

    def __init__(self, stall_seconds: float = BODY_STALL_SECONDS) -> None:
        self._seconds = stall_seconds
        self._begun = Stillness()
        self._stall = Stillness()

    def is_over(self, received_bytes: int, unread_bytes: int, now_seconds: float) -> bool:
        """Tell whether the client was too slow; it is not its fault while there is something to be read."""
        total_seconds = self._begun.age("begun", now_seconds)
        stall_seconds = self._stall.age(None if unread_bytes else received_bytes, now_seconds)
        return not unread_bytes and (
            stall_seconds >= self._seconds
            or total_seconds >= max(BODY_SECONDS, 3 * self._seconds) + received_bytes / BODY_BYTES_PER_SECOND
        )
