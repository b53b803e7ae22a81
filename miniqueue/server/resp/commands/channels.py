"""Subscriptions to channels of Redis: they are confirmed, and no message ever arrives.

    C: SUBSCRIBE __Booksleeve_MasterChanged             C: UNSUBSCRIBE
    S: ["subscribe", "__Booksleeve_MasterChanged", 1]   S: ["unsubscribe", "__Booksleeve_MasterChanged", 0]

Some Redis clients subscribe by themselves and wait for the confirmation. As in Redis, a subscribed connection that
speaks RESP2 has few commands; one that speaks RESP3 has all commands, and receives confirmations as pushes.
`core.options.redis_channels` lists the channels; any other name is a topic.
"""

from collections.abc import Callable

from miniqueue.core.message.names import MAX_TOPIC_BYTES
from miniqueue.core.options.redis_channels import is_redis_channel, is_redis_pattern
from miniqueue.errors import LimitReachedError, RequestError
from miniqueue.server.resp.commands.session import Session
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.resp_arguments import ArityError, shown
from miniqueue.wire.resp_parser import Command
from miniqueue.wire.resp_replies import RESP3

#: Maximum number of channels and patterns of one connection: a bound on its memory.
MAX_CHANNELS = 1024

_CHECKS = {b"SUBSCRIBE": is_redis_channel, b"PSUBSCRIBE": is_redis_pattern}
_UNDOES = {b"UNSUBSCRIBE": b"SUBSCRIBE", b"PUNSUBSCRIBE": b"PSUBSCRIBE"}


class Channels:
    """Carries out the commands of a connection that has subscribed to channels.

    Args:
      session: contains the version of the protocol.
      carry_out: carries out any other command.
      end: called when no subscription is left.
    """

    is_subscription = True

    def __init__(self, session: Session, carry_out: Callable[[Command], bytes], end: Callable[[], None]) -> None:
        self._session = session
        self._carry_out = carry_out
        self._end = end
        self._subscribed: dict[bytes, dict[bytes, None]] = {word: {} for word in _CHECKS}

    @property
    def count(self) -> int:
        """Number of channels and patterns that are subscribed to."""
        return sum(map(len, self._subscribed.values()))

    @property
    def admits_others(self) -> bool:
        """Whether commands of other subjects are carried out, too: in version 3, deliveries are no replies."""
        return self._session.protocol == RESP3

    def execute(self, command: Command) -> bytes:
        """Carry out one command and return its reply; raises MiniqueueError."""
        word = command[0].upper()
        if word in _CHECKS:
            return self._subscribe(word, command[1:])
        if word in _UNDOES:
            return self._unsubscribe(word, command[1:])
        if word in (b"QUIT", b"RESET") or (self.admits_others and word != b"SUB"):
            return self._carry_out(command)
        if word != b"PING":
            raise RequestError(
                f"'{shown(command[0])}' cannot be carried out: the connection has subscribed to channels of Redis; "
                "UNSUBSCRIBE first, or use another connection"
            )
        if len(command) > 2:
            return self._carry_out(command)  # raises the error about its arguments
        return replies.array([replies.bulk(b"pong"), replies.bulk(b"".join(command[1:]))])

    def _subscribe(self, word: bytes, names: list[bytes]) -> bytes:
        if not names:
            raise ArityError(-2)
        for name in names:
            if len(name) > MAX_TOPIC_BYTES or not _CHECKS[word](name):
                raise RequestError(
                    f"invalid channel of Redis: '{shown(name)}'; "
                    "SUBSCRIBE to a topic alone, on another connection than to channels"
                )
        if self.count + len(names) > MAX_CHANNELS:
            raise LimitReachedError(f"too many channels and patterns; at most {MAX_CHANNELS} per connection")
        confirmations: list[bytes] = []
        for name in names:
            self._subscribed[word][name] = None
            confirmations.append(self._confirm(word, name))
        return b"".join(confirmations)

    def _unsubscribe(self, word: bytes, names: list[bytes]) -> bytes:
        subscribed = self._subscribed[_UNDOES[word]]
        confirmations: list[bytes] = []
        for name in names or list(subscribed):
            subscribed.pop(name, None)
            confirmations.append(self._confirm(word, name))
        if not self.count:
            self._end()
        return b"".join(confirmations) or self._confirm(word, None)

    def _confirm(self, word: bytes, name: bytes | None) -> bytes:
        protocol = self._session.protocol
        channel = replies.encode(name, protocol)
        return replies.push([replies.bulk(word.lower()), channel, replies.integer(self.count)], protocol)
