"""Calls about messages: publish, receive, settle.

Each function returns a `Call`; `Client` and `AsyncClient` have a method of the same name that carries it out. Names,
limits and errors are those of docs/protocol.md; seconds can also be a `timedelta`. Only `publish_packed` has no method.
It is for callers that have columns of messages, as Arrow does: a few words contain all messages, without an object for
each.

    sizes     3 0 0 0  0 0 0 0  5 0 0 0          4 bytes for each message, little-endian
    payloads  onethree                           the payloads, concatenated
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, TypeAlias

from miniqueue_client.calls import answers
from miniqueue_client.calls.call import Call, Seconds, T, Word, options, seconds_of, seconds_word, time_word
from miniqueue_client.calls.json_text import encoded
from miniqueue_client.calls.values import Message, PublishedId, PublishedIds
from miniqueue_client.errors import RequestError

#: Maximum number of messages of one `publish_many`, and of receipts of one settle: a command has at most 10,002 words,
#: which include its name, the topic and one more.
MAX_AT_ONCE: Final = 9_999
#: Size of the messages of one command that each broker accepts: 2 MiB, less its name, a topic, and a dedup id.
_SAFE_BYTES: Final = (2 << 20) - 4096

Payload: TypeAlias = bytes | str
Priority: TypeAlias = Literal["high", "normal", "low"]
#: Names and values; pairs if a name occurs more than once.
Headers: TypeAlias = Mapping[str, Payload] | Iterable[tuple[str, Payload]]


_NOT_SETTLED: Final = MappingProxyType({"NOLEASE": [False]})


class Outgoing(NamedTuple):
    """A message to publish together with others.

    Attributes:
      payload: the payload; a str is sent as UTF-8.
      headers: names and values.
      key: the key; None: no key.
      ttl_seconds: the time to live; None: as the topic's settings say.
    """

    payload: Payload
    headers: Headers = ()
    key: Payload | None = None
    ttl_seconds: Seconds | None = None

    def words(self) -> list[Word]:
        """Return the words of the message: its payload, the number of its option words, and these words."""
        option_words = [*options(key=self.key, ttl=seconds_word(self.ttl_seconds)), *header_words(self.headers)]
        return [self.payload, len(option_words), *option_words]


def publish(  # noqa: PLR0913 - one keyword for each option of a message
    topic: str,
    payload: Payload,
    *,
    headers: Headers = (),
    key: Payload | None = None,
    delay_seconds: Seconds | None = None,
    at: datetime | None = None,
    ttl_seconds: Seconds | None = None,
    priority: Priority | None = None,
    dedup_id: str | None = None,
    unique_key: Payload | None = None,
    replace: bool = False,
) -> Call[PublishedId]:
    """Publish a message; it is durable on return.

    Args:
      topic: the topic, which is created if necessary.
      payload: the payload; a str is sent as UTF-8.
      headers: names and values that are delivered with the payload.
      key: the key; messages of one key go to the same partition, and topics that are `ordered` keep their order.
      delay_seconds: how long to delay delivery.
      at: the time of delivery; without a time zone it is local time.
      ttl_seconds: the time to live, after which the message is not delivered.
      priority: the priority; messages of a higher priority are delivered first.
      dedup_id: an id against duplicates: within the topic's dedup window, a second message with the same id is not
        stored. If it is None, a client that deduplicates generates one, so that its own retries store nothing twice.
      unique_key: while a message with this key waits in the topic, no other message with it is stored.
      replace: whether this message replaces the one with its unique key, if that waits and no consumer has it.

    Returns: the id of the message. If the message was not stored, the id of the first one, with `is_duplicate` set.
    """
    words = options(
        delay=seconds_word(delay_seconds),
        at=time_word(at),
        priority=priority,
        key=key,
        ttl=seconds_word(ttl_seconds),
        unique=unique_key,
    )
    plain = ("PUB", topic, payload, *words, *(("REPLACE",) if replace else ()), *header_words(headers))

    def once(dedup_id: str) -> Call[PublishedId]:
        return Call((*plain, "DEDUP", dedup_id), answers.published_id)

    return _once(once, dedup_id, Call(plain, answers.published_id))


def publish_json(  # noqa: PLR0913 - one keyword for each option of a message
    topic: str,
    value: object,
    *,
    headers: Headers = (),
    key: Payload | None = None,
    delay_seconds: Seconds | None = None,
    at: datetime | None = None,
    ttl_seconds: Seconds | None = None,
    priority: Priority | None = None,
    dedup_id: str | None = None,
    unique_key: Payload | None = None,
    replace: bool = False,
) -> Call[PublishedId]:
    """Publish a value as JSON; `Message.json` returns it. The options and the result are those of `publish`.

    Raises RequestError for a value that JSON does not have, such as a `datetime` or NaN; then nothing was sent.
    """
    return publish(
        topic,
        encoded(value),
        headers=headers,
        key=key,
        delay_seconds=delay_seconds,
        at=at,
        ttl_seconds=ttl_seconds,
        priority=priority,
        dedup_id=dedup_id,
        unique_key=unique_key,
        replace=replace,
    )


def request(
    topic: str,
    payload: Payload,
    *,
    timeout_seconds: Seconds = 30.0,
    headers: Headers = (),
    key: Payload | None = None,
    ttl_seconds: Seconds | None = None,
    priority: Priority | None = None,
) -> Call[bytes]:
    """Publish a message and wait for the reply of the consumer that gets it.

    Args:
      topic: the topic, which is created if necessary.
      payload: the payload; a str is sent as UTF-8.
      timeout_seconds: how long to wait for the reply; at most 3,600. Then refused with `TIMEOUT`.
      headers: names and values, see `publish`.
      key: the key, see `publish`.
      ttl_seconds: the time to live; None: the message expires at the end of the wait.
      priority: the priority, see `publish`.

    Returns: the payload of the reply.
    """
    words = options(timeout=seconds_word(timeout_seconds), priority=priority, key=key, ttl=seconds_word(ttl_seconds))
    return Call(
        ("REQUEST", topic, payload, *words, *header_words(headers)),
        bytes,
        is_repeatable=False,
        wait_seconds=seconds_of(timeout_seconds),
    )


def reply(topic: str, receipt: str | Message, payload: Payload) -> Call[None]:
    """Acknowledge a request and send the payload to the client that waits for the reply.

    Refused with `NOREQUEST` if the message is not a request, with `GONE` if its client no longer waits, and with
    `NOLEASE` if the lease has expired or the message is settled.
    """
    return Call(("REPLY", topic, _receipt_of(receipt), payload), answers.nothing, is_repeatable=False)


def publish_many(
    topic: str, payloads: Sequence[Payload], *, headers: Headers = (), dedup_id: str | None = None
) -> Call[PublishedIds]:
    """Publish up to 9,999 messages in one commit, all or none; they are durable on return.

    Args:
      topic: the topic, which is created if necessary.
      payloads: the payloads; together at most 2 MiB, or twice the maximum size of a message. A str is sent as UTF-8.
      headers: names and values that each message has; with them, the limit is that of `publish_each`.
      dedup_id: one id against duplicates for all messages, see `publish`.

    Returns: the ids, in order. If the messages were not stored, the ids of the first ones, with `is_duplicate` set.
    """
    if not 0 < len(payloads) <= MAX_AT_ONCE:
        raise RequestError(f"invalid number of messages: {len(payloads)}; must be 1 to {MAX_AT_ONCE}")
    if pairs := pairs_of(headers):
        return publish_each(topic, [Outgoing(payload, pairs) for payload in payloads], dedup_id=dedup_id)

    def once(dedup_id: str) -> Call[PublishedIds]:
        return Call(("PUBBATCH", topic, dedup_id, *payloads), answers.batch_ids)

    return _once(once, dedup_id, Call(("MPUBLISH", topic, *payloads), answers.new_ids))


def publish_each(topic: str, messages: Sequence[Outgoing], *, dedup_id: str | None = None) -> Call[PublishedIds]:
    """Publish messages with headers, keys and times to live in one commit; see `publish_many`.

    Args:
      topic: the topic, which is created if necessary.
      messages: the messages. Their words are limited to 9,999: two for each message, two more for a key, two for a
        time to live, three for each header.
      dedup_id: one id against duplicates for all messages, see `publish`.
    """
    words = [word for message in messages for word in message.words()]
    if not 0 < len(words) <= MAX_AT_ONCE:
        raise RequestError(f"invalid number of words of all messages: {len(words)}; must be 1 to {MAX_AT_ONCE}")

    def once(dedup_id: str) -> Call[PublishedIds]:
        return Call(("PUBEACH", topic, dedup_id, *words), answers.batch_ids)

    return _once(once, dedup_id)


class Packed(NamedTuple):
    """Messages in the words of PUBPACKED.

    Attributes:
      sizes: the size of each payload, 4 bytes, little-endian.
      payloads: the payloads, concatenated.
      keys: sizes of the keys, 0 for a message without one, and the keys, concatenated; empty if no message has a key.
    """

    sizes: bytes
    payloads: bytes
    keys: tuple[bytes, bytes] | tuple[()] = ()

    @property
    def words(self) -> tuple[bytes, ...]:
        """The words of the messages in the command."""
        return (self.sizes, self.payloads, *self.keys)


def publish_packed(topic: str, packed: Packed, *, dedup_id: str | None = None) -> Call[None]:
    """Publish up to 9,999 packed messages in one commit, all or none; they are durable on return.

    Does not return their ids: a caller that avoids an object for each message also avoids one for each id.

    Args:
      topic: the topic, which is created if necessary.
      packed: the messages, and their keys if they have any.
      dedup_id: one id against duplicates for all messages, see `publish`.
    """

    def once(dedup_id: str) -> Call[None]:
        return Call(("PUBPACKED", topic, dedup_id, *packed.words), answers.nothing)

    return _once(once, dedup_id)


def _once(once: Callable[[str], Call[T]], dedup_id: str | None, plain: Call[T] | None = None) -> Call[T]:
    """Return the call of a publish with its dedup id; without one, a call that is not repeatable until it gets one.

    Args:
      once: returns the call with a dedup id.
      dedup_id: the dedup id; None: none.
      plain: the call without one; None: `once` with an empty id.
    """
    if dedup_id is not None:
        return once(dedup_id)
    return replace(plain or once(""), is_repeatable=False, with_id=once)


def cancel(topic: str, message_id: str) -> Call[None]:
    """Remove a delayed message; refused with `NOMESSAGE` if it is due, or does not exist."""
    return Call(("CANCEL", topic, message_id), answers.nothing, is_repeatable=False)


def receive(
    topic: str,
    *,
    group: str | None = None,
    member: str | None = None,
    count: int = 1,
    wait_seconds: Seconds = 0.0,
    lease_seconds: Seconds | None = None,
    autoack: bool = False,
) -> Call[list[Message]]:
    """Receive messages; any client that has their receipts can settle them.

    Args:
      topic: the topic; it need not exist yet.
      group: the group to read as; None: the default group.
      member: the member of the group, which has partitions of its own; None: compete for all partitions.
      count: maximum number of messages.
      wait_seconds: how long to wait for the first message; at most 60.
      lease_seconds: how long each message is leased; unless it is settled by then, it is redelivered. None: as the
        topic or the broker is configured.
      autoack: whether the messages are acknowledged when they are delivered; a lost reply then loses them.

    Returns: the messages; none if there was none during the wait.
    """
    words = "RECEIVE", topic, *_receive_words(group, member, count, wait_seconds, lease_seconds, autoack)
    return Call(
        words, partial(answers.received, topic), is_repeatable=not autoack, wait_seconds=seconds_of(wait_seconds)
    )


def receive_any(
    *topics: str,
    patterns: Sequence[str] = (),
    group: str | None = None,
    member: str | None = None,
    count: int = 1,
    wait_seconds: Seconds = 0.0,
    lease_seconds: Seconds | None = None,
    autoack: bool = False,
) -> Call[list[Message]]:
    """Receive messages of any of several topics; none of them starves another. Each message names its topic.

    Args:
      topics: the topics; they need not exist yet.
      patterns: the beginnings of the names of more topics, each followed by `*`; also for topics that are created
        during the wait. Topics that the user may not consume are left out.
      group: the group to read as, in each topic; see `receive`, also for the others.
      member: the member of these groups.
      count: maximum number of messages, of all topics together.
      wait_seconds: how long to wait for the first message; at most 60.
      lease_seconds: how long each message is leased.
      autoack: whether the messages are acknowledged when they are delivered.

    Returns: the messages, by topic; none if there was none during the wait.
    """
    words = _receive_words(group, member, count, wait_seconds, lease_seconds, autoack)
    fitting = [word for pattern in patterns for word in ("PATTERN", pattern)]
    named = ("TOPICS", *topics) if topics else ()
    command = ("RECEIVEANY", *words, *fitting, *named)
    return Call(command, answers.received_any, is_repeatable=not autoack, wait_seconds=seconds_of(wait_seconds))


def _receive_words(
    group: str | None,
    member: str | None,
    count: int,
    wait_seconds: Seconds,
    lease_seconds: Seconds | None,
    autoack: bool,
) -> tuple[Word, ...]:
    """Return the options of a receive."""
    option_words: dict[str, Word | None] = {
        "group": group,
        "member": member,
        "count": count,
        "wait": seconds_word(wait_seconds or None),
        "lease": seconds_word(lease_seconds),
    }
    return (*options(**option_words), *(("AUTOACK",) if autoack else ()))


def ack(topic: str, *receipts: str | Message, sync: bool = False) -> Call[list[bool]]:
    """Acknowledge messages.

    Args:
      topic: the topic from which they were received.
      receipts: at least one receipt, or message.
      sync: whether to wait until the settle is on the disk: then not even a power failure can undo it.

    Returns: whether each message was settled. False if its lease had expired, or if it had already been
    settled: possibly by this same call, if a reply was lost and the client retried.
    """
    return _settle("ACK", topic, receipts, is_synced=sync)


def nack(
    topic: str, *receipts: str | Message, seconds: Seconds | None = None, reason: str = "", sync: bool = False
) -> Call[list[bool]]:
    """Return messages to the front, in the order of the receipts, or after the topic's retry delays; see `ack`.

    Args:
      topic: the topic.
      receipts: the messages, or their receipts.
      seconds: a delay, instead of the topic's retry delays.
      reason: why they failed, at most 1 KiB; `Message.failure` of the next deliveries.
      sync: whether to wait until the messages are returned durably.
    """
    words = options(delay=seconds_word(seconds), reason=reason or None)
    return _settle("NACK", topic, receipts, *words, is_synced=sync)


def back(topic: str, *receipts: str | Message, sync: bool = False) -> Call[list[bool]]:
    """Return messages to the back of the topic; see `ack`."""
    return _settle("BACK", topic, receipts, is_synced=sync)


def dack(topic: str, *receipts: str | Message, seconds: Seconds, sync: bool = False) -> Call[list[bool]]:
    """Return messages to the front after a delay; see `ack`."""
    return _settle("DACK", topic, receipts, seconds_word(seconds), is_synced=sync)


def reject(topic: str, *receipts: str | Message, reason: str, sync: bool = False) -> Call[list[bool]]:
    """Move messages to the dead letters, with a reason of at most 1 KiB; see `ack`."""
    return _settle("REJECT", topic, receipts, reason, is_synced=sync)


def extend(topic: str, *receipts: str | Message, seconds: Seconds) -> Call[list[bool]]:
    """Extend leases to `seconds` from now; see `ack`."""
    return _settle("EXTEND", topic, receipts, seconds_word(seconds))


def _settle(
    word: str, topic: str, receipts: Sequence[str | Message], *value: Word, is_synced: bool = False
) -> Call[list[bool]]:
    words = (*map(_receipt_of, receipts), *(("SYNC",) if is_synced else ()))
    if not receipts or len(words) > MAX_AT_ONCE:
        most = MAX_AT_ONCE - is_synced
        raise RequestError(f"invalid number of receipts: {len(receipts)}; must be 1 to {most}")
    return Call((word, topic, *words, *value), answers.settled, results_of_codes=_NOT_SETTLED)


def _receipt_of(receipt: str | Message) -> str:
    return receipt.receipt if isinstance(receipt, Message) else receipt


def header_words(headers: Headers) -> Iterable[Word]:
    """Return the words of the headers of a message: three for each."""
    return (word for name, value in pairs_of(headers) for word in ("HEADER", name, value))


def pairs_of(headers: Headers) -> list[tuple[str, Payload]]:
    """Return headers as pairs."""
    return list(headers.items() if isinstance(headers, Mapping) else headers)


def fit_together(messages: Iterable[Outgoing]) -> bool:
    """Whether one `publish_each` can contain these messages, whatever the size that its broker allows."""
    words = [word for message in messages for word in message.words()]
    return len(words) <= MAX_AT_ONCE and sum(map(_size_of, words)) <= _SAFE_BYTES


def _size_of(word: Word) -> int:
    return len(word if isinstance(word, bytes) else str(word).encode())
