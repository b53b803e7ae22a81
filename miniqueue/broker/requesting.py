"""Request and reply: who publishes a message waits until the consumer that gets it has replied.

    request ─▶ published, with the name of who waits ─▶ WAITING ─ reply ─▶ answer(payload)
                 │ the commit fails ─▶ fail(UNKNOWN)       └ time is over ─▶ fail(TIMEOUT)
                 └ expires when the wait does, so nobody works for who has left

    reply  ─▶ leased, and a request? ─▶ acknowledged ─▶ does somebody wait under this name? ─ no ─▶ GONE

Who waits is in memory: a name is a random prefix of this broker, new with every start, and a number. So a reply to a
requester of the time before a restart finds nobody, and never somebody else. The message itself is stored as any other
is, is delivered again when a consumer fails, and its settle is durable with the next commit; the reply does not wait
for that, for it goes to whoever waits now, and nowhere else.
"""

import asyncio
import secrets
from collections import Counter
from collections.abc import Callable
from functools import partial

from miniqueue.broker.admission import Admission
from miniqueue.broker.commit import Accepted
from miniqueue.broker.consumer import Consumer
from miniqueue.broker.leasing import Leasing
from miniqueue.core import attributes
from miniqueue.core.publish_options import PublishOptions
from miniqueue.core.receiving import NOT_LEASED
from miniqueue.core.request_errors import NoReplyError, NoRequestError, RequesterGoneError
from miniqueue.core.request_options import check_request
from miniqueue.errors import (
    DrainingError,
    LimitReachedError,
    MiniqueueError,
    NothingOutstandingError,
    PayloadTooLargeError,
)

#: Requesters that wait at a time; each costs about 2 KiB, and its message what messages cost.
MAX_WAITING = 10_000
#: They wait longer than their messages live: timers and times that are stored are in milliseconds, each cut off.
EXPIRY_SECONDS = 0.003

#: Publishes a message as its options say.
_Publish = Callable[[bytes, bytes, PublishOptions], Accepted]


class Request:
    """Somebody who waits for a reply, or has waited.

    Args:
      answer: called with the reply.
      fail: called with an error instead; one of both is called, once.
      leave: called before that.
    """

    __slots__ = ("_answer", "_fail", "_leave", "_timer", "is_waiting")

    def __init__(
        self, answer: Callable[[bytes], None], fail: Callable[[MiniqueueError], None], leave: Callable[[], None]
    ) -> None:
        self._answer = answer
        self._fail = fail
        self._leave = leave
        self._timer: asyncio.TimerHandle | None = None
        self.is_waiting = True

    def wait(self, accepted: Accepted, timeout_seconds: float) -> None:
        """Wait for so long, unless the message cannot be committed."""
        self._timer = asyncio.get_running_loop().call_later(
            timeout_seconds + EXPIRY_SECONDS, self.give_up, NoReplyError
        )
        accepted.commit.add_listener(partial(self._committed, accepted))

    def answer(self, payload: bytes) -> None:
        """Have it answered, if it still waits."""
        if self._end():
            self._answer(payload)

    def give_up(self, error: type[MiniqueueError] = NoReplyError) -> None:
        """Wait no longer; does nothing when it has been answered."""
        if self._end():
            self._fail(error())

    def _committed(self, accepted: Accepted) -> None:
        error = accepted.commit.error
        if error is not None and self._end():
            self._fail(error)

    def _end(self) -> bool:
        was_waiting, self.is_waiting = self.is_waiting, False
        if was_waiting:
            if self._timer is not None:
                self._timer.cancel()
            self._leave()
        return was_waiting


class Requests:
    """Publishes requests, and passes replies to those who wait for them.

    Args:
      publish: publishes a message.
      leasing: knows the messages that are leased to no connection.
      admission: says when the broker stops.
      max_message_bytes: the largest reply.
    """

    def __init__(self, publish: _Publish, leasing: Leasing, admission: Admission, max_message_bytes: int) -> None:
        self._publish = publish
        self._leasing = leasing
        self._admission = admission
        self._max_message_bytes = max_message_bytes
        self._waiting: dict[bytes, Request] = {}
        self._by_topic: Counter[bytes] = Counter()
        self._prefix = secrets.token_hex(8).encode() + b"-"
        self._count = 0

    @property
    def waiting_count(self) -> int:
        """How many requesters wait."""
        return len(self._waiting)

    def waiting_in(self, name: bytes) -> int:
        """Return how many of them have published to a topic."""
        return self._by_topic.get(name, 0)

    def request(
        self,
        name: bytes,
        payload: bytes,
        options: PublishOptions,
        timeout_seconds: float,
        answer: Callable[[bytes], None],
        fail: Callable[[MiniqueueError], None],
    ) -> Request:
        """Publish a message; `answer` is called with the reply to it, or `fail` with an error, later and once.

        Args:
          name: of the topic.
          payload: of the message.
          options: of the message; one that does not say when it expires does so with the timeout.
          timeout_seconds: how long the reply is waited for.
          answer: called with the payload of the reply.
          fail: called with NoReplyError when there is none in time, or with what kept the message from the disk.

        Raises:
          InvalidOptionError: somebody who waits cannot have such options.
          LimitReachedError: too many wait already, or what publishing raises. Nothing was published.
        """
        check_request(options)
        if len(self._waiting) >= MAX_WAITING:
            raise LimitReachedError(f"{MAX_WAITING} requests wait for a reply already")
        self._count += 1
        reply_to = b"%b%d" % (self._prefix, self._count)
        if options.ttl_seconds is None:
            options = options._replace(ttl_seconds=timeout_seconds)
        accepted = self._publish(name, payload, options._replace(reply_to=reply_to))
        request = self._waiting[reply_to] = Request(answer, fail, partial(self._leave, name, reply_to))
        self._by_topic[name] += 1
        request.wait(accepted, timeout_seconds)
        return request

    def give_up(self, request: Request) -> None:
        """Have a requester wait no longer: because it has left, or because the broker stops."""
        request.give_up(DrainingError if self._admission.refusal is DrainingError else NoReplyError)

    def reply(self, name: bytes, receipt: bytes, payload: bytes) -> None:
        """Acknowledge a message of a topic that was received, and pass `payload` to who waits for it.

        Raises:
          InvalidTopicError: nothing can have this name.
          PayloadTooLargeError, NoRequestError: the message is still leased.
          NothingOutstandingError: the receipt belongs to no message that is leased now.
          RequesterGoneError: nobody waits any more; the message is acknowledged.
          UnavailableError: nothing can be settled now.
        """
        self._check(payload)
        given = self._leasing.attributes_of(name, receipt)
        if given is None:
            raise NothingOutstandingError(NOT_LEASED)
        reply_to = _reply_to(given)
        self._leasing.ack(name, [receipt])
        self._pass_on(reply_to, payload)

    def reply_from_stream(self, consumer: Consumer, receipt: int | None, payload: bytes) -> None:
        """Do the same with a message that a consumer holds; `receipt` is None for the one that it holds."""
        self._check(payload)
        reply_to = _reply_to(consumer.attributes_of(receipt))
        consumer.ack(None if receipt is None else [receipt])
        self._pass_on(reply_to, payload)

    def _leave(self, name: bytes, reply_to: bytes) -> None:
        del self._waiting[reply_to]
        self._by_topic[name] -= 1
        if not self._by_topic[name]:
            del self._by_topic[name]

    def _check(self, payload: bytes) -> None:
        if len(payload) > self._max_message_bytes:
            raise PayloadTooLargeError(len(payload), self._max_message_bytes)

    def _pass_on(self, reply_to: bytes, payload: bytes) -> None:
        request = self._waiting.get(reply_to)
        if request is None:
            raise RequesterGoneError
        request.answer(payload)


def _reply_to(given: bytes) -> bytes:
    """Return who waits for a reply to a message with these attributes; raises NoRequestError."""
    reply_to = attributes.decode(given).reply_to
    if not reply_to:
        raise NoRequestError
    return reply_to
