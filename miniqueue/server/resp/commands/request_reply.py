"""REQUEST and REPLY: publish a message and wait for the reply of the consumer that receives it.

    C: REQUEST sums "2 + 3" TIMEOUT 5          W: RECEIVE sums WAIT 60  ─▶ [["5f0c-17", "2 + 3", [… reply_to …]]]
    S: 5                                       W: REPLY sums 5f0c-17 5  ─▶ OK

While a REQUEST waits, the commands after it on its connection wait too; other connections continue.
"""

from functools import partial

from miniqueue.broker.leases.request_reply import Request
from miniqueue.core.options.publish import (
    DEFAULT_TIMEOUT_SECONDS,
    PublishOptions,
    check_request,
    parse_timeout,
    parse_words,
)
from miniqueue.errors import MiniqueueError
from miniqueue.errors.requests import InvalidOptionError, NoReplyError
from miniqueue.server.resp.commands.context import Client
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.resp_parser import Command


def request(client: Client, command: Command) -> bytes:
    """Carry out REQUEST; the reply comes later."""
    timeout_seconds, words = timeout_of(command[3:])
    waiting = _WaitingRequest(client, timeout_seconds)
    options = check_request(parse_words(words))
    client.when_room(partial(waiting.begin, command[1], command[2], options))
    return b""


def reply(client: Client, command: Command) -> bytes:
    """Carry out REPLY."""
    topic, receipt, payload = command[1:]
    client.broker.requests.reply(topic, receipt, payload)
    return replies.OK


def timeout_of(words: list[bytes]) -> tuple[float, list[bytes]]:
    """Return the timeout in the arguments after a message, and the other arguments; raises InvalidOptionError."""
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
    """A REQUEST from its message to its reply; the connection is held in between."""

    def __init__(self, client: Client, timeout_seconds: float) -> None:
        self._client = client
        self._timeout_seconds = timeout_seconds
        self._request: Request | None = None

    def begin(self, topic: bytes, payload: bytes, options: PublishOptions) -> None:
        """Publish, and hold the connection; raises MiniqueueError."""
        if self._client.has_ended:
            raise NoReplyError("the client has closed its side of the connection; nothing was published")
        requests = self._client.broker.requests
        self._request = requests.request(topic, payload, options, self._timeout_seconds, self._answer, self._fail)
        self._client.hold(self)

    def give_up(self) -> None:
        """Reply now, with an error."""
        if self._request is not None:
            self._client.broker.requests.give_up(self._request)

    wait_no_longer = give_up

    def _answer(self, payload: bytes) -> None:
        self._client.release(replies.bulk(payload))

    def _fail(self, error: MiniqueueError) -> None:
        self._client.release(replies.error(error.code, str(error)))
