"""What a connection does after EVENTS: it hears what happens in the broker, until RESET.

    C: EVENTS topic-changed dead-letter
    S: +OK
    S: [event, topic-changed, [at_ms, 1700000000000, topic, orders, settings, [ttl_seconds], by, …]]

Notices are sent when they come, after the replies to the commands before. If the client does not read, or too many
wait for those replies, they wait in the buffer of the listener, and the broker drops those for which it has no room.
"""

from collections.abc import Callable, Sequence
from typing import Final

from miniqueue.broker.runtime.accounts import account_of
from miniqueue.broker.runtime.notices import Listener, Notice, NoticeKind, Notices
from miniqueue.broker.runtime.tasks import CURRENT_ACTOR
from miniqueue.errors import RequestError
from miniqueue.wire.resp_parser import Command

#: Maximum size of the notices that wait for replies before them, about: those to publishes wait for their commits.
MAX_UNSENT_BYTES: Final = 64 << 10


class EventStream:
    """Carries out the commands of a RESP connection after EVENTS, and sends it what happens; raises LimitReachedError.

    Args:
      notices: reports what happens.
      kinds: what the client wants.
      sees: whether it may see the events of a topic, or of the broker for None.
      send: sends notices, after the replies to the commands before.
      is_slow: whether the client does not read, or too much waits to be sent; then notices wait, and some are lost.
      others: the commands that are allowed, by name in capitals.
    """

    is_subscription = True

    def __init__(
        self,
        notices: Notices,
        kinds: frozenset[NoticeKind],
        *,
        sees: Callable[[bytes | None], bool],
        send: Callable[[Sequence[Notice]], None],
        is_slow: Callable[[], bool],
        others: dict[bytes, Callable[[Command], bytes]],
    ) -> None:
        self._notices = notices
        self._send = send
        self._is_slow = is_slow
        self._others = others
        self._listener = Listener(kinds, sees, account_of(CURRENT_ACTOR.get()), self._hear)
        notices.listen(self._listener)

    def execute(self, command: Command) -> bytes:
        """Carry out one command and return its reply; raises MiniqueueError."""
        word = command[0].upper()
        if word not in self._others:
            allowed = ", ".join(name.decode() for name in self._others)
            raise RequestError(f"a connection that listens to events allows only {allowed}; use another connection")
        return self._others[word](command)

    def close(self) -> None:
        """Listen no more."""
        self._notices.leave(self._listener)

    def _hear(self) -> None:
        if not self._is_slow():  # otherwise the next tick of the broker calls again
            self._send(self._listener.take(self._notices.now_ms()))
