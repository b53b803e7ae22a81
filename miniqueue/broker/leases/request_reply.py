"""Request and reply: a requester publishes a message and waits until the consumer that receives it has replied.

    request ─▶ published, with the name of the requester ─▶ WAITING ─ reply ─▶ answer(payload)
                 │ the commit fails ─▶ fail(UNKNOWN)           └ timeout ─▶ fail(TIMEOUT)
                 └ expires at the timeout, so no consumer works for a requester that has left

    reply  ─▶ leased, and a request? ─▶ acknowledged ─▶ does a requester wait under this name? ─ no ─▶ GONE

Waiting requesters exist in memory only. The name of a requester is a random prefix, new with every start of the broker,
and a number. So a reply to a requester from before a restart reaches no requester, and never a wrong one.

The message itself is stored like any other: it is redelivered if a consumer fails, and its acknowledgment is durable
with the next commit. The reply does not wait for that commit, because it goes only to the requester that waits now.
"""

import asyncio
import secrets
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeVar

from miniqueue.broker.commit.journal import Accepted
from miniqueue.broker.consume.consumer import Consumer
from miniqueue.broker.engine.engine import Engine
from miniqueue.broker.leases.leases import Leases
from miniqueue.broker.model.shares import Pool
from miniqueue.broker.runtime.accounts import user_of
from miniqueue.broker.runtime.tasks import CURRENT_ACTOR
from miniqueue.core.message import attributes
from miniqueue.core.options.consume import NOT_LEASED
from miniqueue.core.options.publish import PublishOptions, check_request
from miniqueue.errors import (
    DrainingError,
    LimitReachedError,
    MiniqueueError,
    NothingOutstandingError,
    PayloadTooLargeError,
)
from miniqueue.errors.requests import NoReplyError, NoRequestError, RequesterGoneError

#: Maximum number of waiting requesters; each costs about 2 KiB, in addition to its message.
MAX_WAITING = 10_000
REQUEST_BYTES = 2 << 10
#: A requester waits this much longer than its message lives: timers and stored times are truncated to milliseconds.
EXPIRY_SECONDS = 0.003

_Key = TypeVar("_Key", bytes, str)

#: Publishes a message as its options say.
_Publish = Callable[[bytes, bytes, PublishOptions], Accepted]


class _Callbacks(NamedTuple):
    """The callbacks of a waiting requester."""

    answer: Callable[[bytes], None]
    fail: Callable[[MiniqueueError], None]
    leave: Callable[[], None]


class Request:
    """A requester that waits for a reply, or has waited.

    Args:
      answer: called with the reply.
      fail: called with an error instead; either `answer` or `fail` is called, once.
      leave: called before `answer` or `fail`.
    """

    __slots__ = ("_callbacks", "_timer")

    def __init__(
        self, answer: Callable[[bytes], None], fail: Callable[[MiniqueueError], None], leave: Callable[[], None]
    ) -> None:
        self._callbacks: _Callbacks | None = _Callbacks(answer, fail, leave)
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether the requester has neither been answered nor failed."""
        return self._callbacks is not None

    def wait(self, accepted: Accepted, timeout_seconds: float) -> None:
        """Wait for `timeout_seconds`; fail earlier if the message cannot be committed."""
        self._timer = asyncio.get_running_loop().call_later(
            timeout_seconds + EXPIRY_SECONDS, self.give_up, NoReplyError
        )
        accepted.commit.add_listener(partial(self._committed, accepted))

    def answer(self, payload: bytes) -> None:
        """Pass the reply to the requester if it still waits."""
        if (callbacks := self._end()) is not None:
            callbacks.answer(payload)

    def give_up(self, error: type[MiniqueueError] = NoReplyError) -> None:
        """Stop waiting and fail with `error`; if the requester has been answered, this does nothing."""
        if (callbacks := self._end()) is not None:
            callbacks.fail(error())

    def _committed(self, accepted: Accepted) -> None:
        error = accepted.commit.error
        if error is not None and (callbacks := self._end()) is not None:
            callbacks.fail(error)

    def _end(self) -> "_Callbacks | None":
        """Stop waiting; return the callbacks, which refer to the owner of this request, unless it had ended before."""
        callbacks, self._callbacks = self._callbacks, None
        if callbacks is not None:
            if self._timer is not None:
                self._timer.cancel()
            callbacks.leave()
        return callbacks


class Requests:
    """Publishes requests, and passes replies to the requesters that wait for them.

    Args:
      engine: reports when the broker stops.
      publish: publishes a message.
      leases: the leases that belong to no connection.
      max_message_bytes: maximum size of a reply.
    """

    def __init__(self, engine: Engine, publish: _Publish, leases: Leases, max_message_bytes: int) -> None:
        self._publish = publish
        self._leases = leases
        self._admission = engine.journal.admission
        self._max_message_bytes = max_message_bytes
        self._waiting: dict[bytes, Request] = {}
        self._by_topic: Counter[bytes] = Counter()
        self._by_user: Counter[str] = Counter()
        self._shares = engine.shares
        self._shares.measure(Pool.REQUESTS, self._count_of, MAX_WAITING, f"{MAX_WAITING} for all users")
        self._prefix = secrets.token_hex(8).encode() + b"-"
        self._count = 0

    @property
    def size_bytes(self) -> int:
        """The approximate memory use of the waiting requesters."""
        return len(self._waiting) * REQUEST_BYTES

    @property
    def waiting_count(self) -> int:
        """Number of waiting requesters."""
        return len(self._waiting)

    def waiting_in(self, name: bytes) -> int:
        """Return how many waiting requesters have published to a topic."""
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
        """Publish a message; later, call either `answer` with the reply or `fail` with an error, once.

        Args:
          name: the name of the topic.
          payload: the payload of the message.
          options: the options of the message; if they set no TTL, the message expires at the timeout.
          timeout_seconds: how long the requester waits for the reply.
          answer: called with the payload of the reply.
          fail: called with NoReplyError if there is no reply in time, or with the error that prevented the commit.

        Raises:
          InvalidOptionError: a message with such options cannot be a request.
          LimitReachedError: the maximum number of requesters wait already. Errors of publishing are raised as well.
            After any of these errors, nothing was published.
        """
        check_request(options)
        if len(self._waiting) >= MAX_WAITING:
            raise LimitReachedError(f"{MAX_WAITING} requests wait for a reply already")
        user = user_of(CURRENT_ACTOR.get())
        self._shares.admit(Pool.REQUESTS, user)
        self._count += 1
        reply_to = b"%b%d" % (self._prefix, self._count)
        if options.ttl_seconds is None:
            options = options._replace(ttl_seconds=timeout_seconds)
        accepted = self._publish(name, payload, options._replace(reply_to=reply_to))
        request = self._waiting[reply_to] = Request(answer, fail, partial(self._leave, name, user, reply_to))
        self._by_topic[name] += 1
        self._by_user[user] += 1
        request.wait(accepted, timeout_seconds)
        return request

    def give_up(self, request: Request) -> None:
        """End the wait of a requester: its client has left, or the broker stops."""
        request.give_up(DrainingError if self._admission.refusal is DrainingError else NoReplyError)

    def reply(self, name: bytes, receipt: bytes, payload: bytes) -> None:
        """Acknowledge a message that was received by receipt, and pass `payload` to the requester.

        Raises:
          InvalidTopicError: no topic can have this name.
          PayloadTooLargeError, NoRequestError: the reply was rejected; the message is still leased.
          NothingOutstandingError: the receipt names no message that is leased now.
          RequesterGoneError: the requester does not wait any more; the message is acknowledged.
          UnavailableError: no message can be settled now.
        """
        self._check(payload)
        encoded = self._leases.attributes_of(name, receipt)
        if encoded is None:
            raise NothingOutstandingError(NOT_LEASED)
        reply_to = _reply_to(encoded)
        self._leases.ack(name, [receipt])
        self._pass_on(reply_to, payload)

    def reply_from_stream(self, consumer: Consumer, receipt: int | None, payload: bytes) -> None:
        """Acknowledge a message that a consumer holds, and pass `payload` to the requester.

        `receipt` is None for a consumer that holds a single message. Raises PayloadTooLargeError, NoRequestError and
        RequesterGoneError as `reply` does, and the errors of `Consumer.ack`.
        """
        self._check(payload)
        reply_to = _reply_to(consumer.attributes_of(receipt))
        consumer.ack(None if receipt is None else [receipt])
        self._pass_on(reply_to, payload)

    def _count_of(self, user: str | None) -> int:
        return len(self._waiting) if user is None else self._by_user.get(user, 0)

    def _leave(self, name: bytes, user: str, reply_to: bytes) -> None:
        del self._waiting[reply_to]
        _count_down(self._by_topic, name)
        _count_down(self._by_user, user)

    def _check(self, payload: bytes) -> None:
        if len(payload) > self._max_message_bytes:
            raise PayloadTooLargeError(len(payload), self._max_message_bytes)

    def _pass_on(self, reply_to: bytes, payload: bytes) -> None:
        request = self._waiting.get(reply_to)
        if request is None:
            raise RequesterGoneError
        request.answer(payload)


def _count_down(counter: Counter[_Key], key: _Key) -> None:
    counter[key] -= 1
    if not counter[key]:
        del counter[key]


def _reply_to(encoded: bytes) -> bytes:
    """Return the name of the requester from the encoded attributes of a message; raises NoRequestError."""
    reply_to = attributes.decode(encoded).reply_to
    if not reply_to:
        raise NoRequestError
    return reply_to
