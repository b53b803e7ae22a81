"""REQUEST and REPLY over RESP: publish a message and wait for what the consumer that gets it replies.

    C: REQUEST sums "2 + 3" TIMEOUT 5          W: RECEIVE sums WAIT 60  ─▶ [["5f0c-17", "2 + 3", [… reply_to …]]]
    S: 5                                       W: REPLY sums 5f0c-17 5  ─▶ OK

While a REQUEST waits, the commands behind it on its connection wait too; other connections do not.
"""

from functools import partial
from typing import TYPE_CHECKING

from miniqueue.broker.requesting import Request
from miniqueue.core.look_errors import InvalidOptionError
from miniqueue.core.publish_options import PublishOptions, parse_words
from miniqueue.core.request_errors import NoReplyError
from miniqueue.core.request_options import DEFAULT_TIMEOUT_SECONDS, check_request, parse_timeout
from miniqueue.errors import MiniqueueError
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.resp_parser import Command

if TYPE_CHECKING:
    from miniqueue.server.resp import RespConnection


def request(connection: "RespConnection", command: Command) -> bytes:
    """Carry out REQUEST; the reply comes later."""
    timeout_seconds, words = _timeout(command[3:])
    waiting = _WaitingRequest(connection, timeout_seconds)
    options = check_request(parse_words(words))
    connection.when_room(partial(waiting.begin, command[1], command[2], options))
    return b""


def reply(connection: "RespConnection", command: Command) -> bytes:
    """Carry out REPLY."""
    topic, receipt, payload = command[1:]
    connection.broker.requests.reply(topic, receipt, payload)
    return replies.OK


def _timeout(words: list[bytes]) -> tuple[float, list[bytes]]:
    """Return the timeout that the words behind a message say, and the other words."""
    names = [word.upper() for word in words]
    index = 0
    while index < len(words) and names[index] != b"TIMEOUT":
        index += 3 if names[index] == b"HEADER" else 2
    if index >= len(words):
        return DEFAULT_TIMEOUT_SECONDS, words
    if index + 1 == len(words):
        raise InvalidOptionError("the option timeout needs a value")
    return parse_timeout(words[index + 1].decode("utf-8", "replace")), words[:index] + words[index + 2 :]


class _WaitingRequest:
    """A REQUEST from its message to its reply; the connection is held all the time."""

    def __init__(self, connection: "RespConnection", timeout_seconds: float) -> None:
        self._connection = connection
        self._timeout_seconds = timeout_seconds
        self._request: Request | None = None

    def begin(self, topic: bytes, payload: bytes, options: PublishOptions) -> None:
        """Publish, and hold the connection; raises MiniqueueError."""
        if self._connection.has_ended:
            raise NoReplyError("the client has closed its side of the connection; nothing was published")
        requests = self._connection.broker.requests
        self._request = requests.request(topic, payload, options, self._timeout_seconds, self._answer, self._fail)
        self._connection.hold(self)

    def give_up(self) -> None:
        """Have it answered now, with an error."""
        if self._request is not None:
            self._connection.broker.requests.give_up(self._request)

    wait_no_longer = give_up

    def _answer(self, payload: bytes) -> None:
        self._connection.release(replies.bulk(payload))

    def _fail(self, error: MiniqueueError) -> None:
        self._connection.release(replies.error(error.code, str(error)))
