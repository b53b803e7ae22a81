"""What a client asks about messages: publish, receive, settle.

Each function returns a `Call`; `Client` and `AsyncClient` have a method of the same name for each, which carries it
out. Names, limits and errors are those of docs/protocol.md.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, TypeAlias

from miniqueue.client import answers
from miniqueue.client.call import Call, Word, options, seconds_word
from miniqueue.client.message import Message
from miniqueue.client.published import PublishedId, PublishedIds
from miniqueue.errors import RequestError

#: Messages of one `publish_many`, and receipts of one settle: what a command has room for beside its name, the topic
#: and one word more.
MAX_AT_ONCE: Final = 9_999

Payload: TypeAlias = bytes | str
Priority: TypeAlias = Literal["high", "normal", "low"]
#: Names and values; pairs where a name comes more than once.
Headers: TypeAlias = Mapping[str, Payload] | Iterable[tuple[str, Payload]]


class Outgoing(NamedTuple):
    """A message to be published with others.

    Attributes:
      payload: a str is sent as UTF-8.
      headers: names and values.
      key: None for none.
      ttl_seconds: None for what the topic says.
    """

    payload: Payload
    headers: Headers = ()
    key: Payload | None = None
    ttl_seconds: float | None = None

    def words(self) -> list[Word]:
        """Return the message, how many words its options have, and these."""
        ttl = None if self.ttl_seconds is None else seconds_word(self.ttl_seconds)
        given = [*options(key=self.key, ttl=ttl), *_header_words(self.headers)]
        return [self.payload, len(given), *given]


_NOT_SETTLED: Final = MappingProxyType({"NOLEASE": [False]})


def publish(  # noqa: PLR0913 - one keyword for each option of a message
    topic: str,
    payload: Payload,
    *,
    headers: Headers = (),
    key: Payload | None = None,
    delay_seconds: float | None = None,
    at: datetime | None = None,
    ttl_seconds: float | None = None,
    priority: Priority | None = None,
    dedup_id: str | None = None,
    unique_key: Payload | None = None,
) -> Call[PublishedId]:
    """Publish a message; it is durable on return.

    Args:
      topic: made if there is none.
      payload: a str is sent as UTF-8.
      headers: what goes along with the payload.
      key: messages of one key belong together; topics that are `ordered` keep their order.
      delay_seconds: it is handed out that much later.
      at: it is handed out then; with a time zone, or in local time.
      ttl_seconds: it is of no use after that, and is not handed out any more.
      priority: messages of a higher one go first.
      dedup_id: a second message with the same id, within the topic's window, is not stored. A client that
        deduplicates makes an id where none is given, so that a retry of its own stores nothing twice.
      unique_key: while a message with it waits in the topic, another one is not stored.

    Returns: the id of the message; of the first one, where this one was not stored, as `is_duplicate` of it says.
    """
    words = options(
        delay=None if delay_seconds is None else seconds_word(delay_seconds),
        at=None if at is None else round(at.timestamp() * 1000),
        priority=priority,
        key=key,
        ttl=None if ttl_seconds is None else seconds_word(ttl_seconds),
        unique=unique_key,
    )
    plain = ("PUB", topic, payload, *words, *_header_words(headers))

    def once(dedup_id: str) -> Call[PublishedId]:
        return Call((*plain, "DEDUP", dedup_id), answers.published_id)

    return Call(plain, answers.published_id, is_repeatable=False, with_id=once) if dedup_id is None else once(dedup_id)


def request(
    topic: str,
    payload: Payload,
    *,
    timeout_seconds: float = 30.0,
    headers: Headers = (),
    key: Payload | None = None,
    ttl_seconds: float | None = None,
    priority: Priority | None = None,
) -> Call[bytes]:
    """Publish a message and wait for the reply of the consumer that gets it.

    Args:
      topic: made if there is none.
      payload: a str is sent as UTF-8.
      timeout_seconds: how long to wait, up to 3,600; refused with `TIMEOUT` then.
      headers: as with `publish`.
      key: as with `publish`.
      ttl_seconds: as with `publish`; by default the message expires when nobody waits for the reply any more.
      priority: as with `publish`.

    Returns: the reply.
    """
    words = options(
        timeout=seconds_word(timeout_seconds),
        priority=priority,
        key=key,
        ttl=None if ttl_seconds is None else seconds_word(ttl_seconds),
    )
    return Call(
        ("REQUEST", topic, payload, *words, *_header_words(headers)),
        bytes,
        is_repeatable=False,
        wait_seconds=timeout_seconds,
    )


def reply(topic: str, receipt: str | Message, payload: Payload) -> Call[None]:
    """Settle a request: it is done, and who asked gets the payload.

    Refused with `NOREQUEST` when nobody has asked, with `GONE` when who asked does not wait any more, and with
    `NOLEASE` as in `ack`.
    """
    return Call(("REPLY", topic, _receipt_of(receipt), payload), answers.nothing, is_repeatable=False)


def publish_many(topic: str, payloads: Sequence[Payload], *, dedup_id: str | None = None) -> Call[PublishedIds]:
    """Publish up to 9,999 messages in one commit, all or none; they are durable on return.

    Args:
      topic: made if there is none.
      payloads: together up to 2 MiB, or twice what one message may have; a str is sent as UTF-8.
      dedup_id: of all of them together; as with `publish`.

    Returns: their ids, in order; those of the first time, where these were not stored, as `is_duplicate` says.
    """
    if not 0 < len(payloads) <= MAX_AT_ONCE:
        raise RequestError(f"one request publishes 1 to {MAX_AT_ONCE} messages, not {len(payloads)}")

    def once(dedup_id: str) -> Call[PublishedIds]:
        return Call(("PUBBATCH", topic, dedup_id, *payloads), answers.batch_ids)

    if dedup_id is not None:
        return once(dedup_id)
    return Call(("MPUBLISH", topic, *payloads), answers.new_ids, is_repeatable=False, with_id=once)


def publish_each(topic: str, messages: Sequence[Outgoing], *, dedup_id: str | None = None) -> Call[PublishedIds]:
    """Publish messages with headers, keys and times to live in one commit, as `publish_many`.

    Args:
      topic: made if there is none.
      messages: as many as a command of 10,002 words has room for: two for each, two more for a key, two for a time to
        live, three for a header.
      dedup_id: of all of them together; as with `publish`.
    """
    words = [word for message in messages for word in message.words()]
    if not 0 < len(words) <= MAX_AT_ONCE:
        raise RequestError(f"one request publishes messages of 1 to {MAX_AT_ONCE} words, not {len(words)}")

    def once(dedup_id: str) -> Call[PublishedIds]:
        return Call(("PUBEACH", topic, dedup_id, *words), answers.batch_ids)

    return once("")._replace(is_repeatable=False, with_id=once) if dedup_id is None else once(dedup_id)


def cancel(topic: str, message_id: str) -> Call[None]:
    """Remove a message that was published with a delay; refused with `NOMESSAGE` when it is gone or has become due."""
    return Call(("CANCEL", topic, message_id), answers.nothing, is_repeatable=False)


def receive(
    topic: str,
    *,
    group: str | None = None,
    member: str | None = None,
    count: int = 1,
    wait_seconds: float = 0.0,
    lease_seconds: float | None = None,
    autoack: bool = False,
) -> Call[list[Message]]:
    """Receive messages; they are leased to whoever has their receipts.

    Args:
      topic: it need not exist yet.
      group: who reads; without it the default group.
      member: of the group, who has partitions of its own; without it, who reads competes for all of them.
      count: messages at most.
      wait_seconds: how long to wait for the first, up to 60.
      lease_seconds: after that a message that is not settled comes again; by default as the topic or the broker says.
      autoack: they are acknowledged as they are handed out; a reply that gets lost loses them.

    Returns: what there was; nothing when the wait was over first.
    """
    given: dict[str, Word | None] = {
        "group": group,
        "member": member,
        "count": count,
        "wait": seconds_word(wait_seconds) if wait_seconds else None,
        "lease": None if lease_seconds is None else seconds_word(lease_seconds),
    }
    words = ("RECEIVE", topic, *options(**given), *(("AUTOACK",) if autoack else ()))
    return Call(words, partial(answers.received, topic), is_repeatable=not autoack, wait_seconds=wait_seconds)


def ack(topic: str, *receipts: str | Message) -> Call[list[bool]]:
    """Settle messages: they are done.

    Args:
      topic: where they were received.
      receipts: at least one; those of messages, or the messages.

    Returns: for each whether it was settled; not so when its lease was over, or it had been settled already, which
    may have been by this call, when a reply got lost and the client has asked again.
    """
    return _settle("ACK", topic, receipts)


def nack(topic: str, *receipts: str | Message) -> Call[list[bool]]:
    """Return messages to the front, in the order of the receipts, or as the topic's retry settings say; as `ack`."""
    return _settle("NACK", topic, receipts)


def back(topic: str, *receipts: str | Message) -> Call[list[bool]]:
    """Return messages to the back of the topic; as `ack`."""
    return _settle("BACK", topic, receipts)


def dack(topic: str, *receipts: str | Message, seconds: float) -> Call[list[bool]]:
    """Return messages to the front after a time; as `ack`."""
    return _settle("DACK", topic, receipts, seconds_word(seconds))


def reject(topic: str, *receipts: str | Message, reason: str) -> Call[list[bool]]:
    """Give messages up, for a reason of up to 1 KiB: they become dead letters; as `ack`."""
    return _settle("REJECT", topic, receipts, reason)


def extend(topic: str, *receipts: str | Message, seconds: float) -> Call[list[bool]]:
    """Have leases end so many seconds from now; as `ack`."""
    return _settle("EXTEND", topic, receipts, seconds_word(seconds))


def _settle(word: str, topic: str, receipts: Sequence[str | Message], *value: Word) -> Call[list[bool]]:
    if not 0 < len(receipts) <= MAX_AT_ONCE:
        raise RequestError(f"one request settles 1 to {MAX_AT_ONCE} receipts, not {len(receipts)}")
    named = map(_receipt_of, receipts)
    return Call((word, topic, *named, *value), answers.settled, results_of_codes=_NOT_SETTLED)


def _receipt_of(receipt: str | Message) -> str:
    return receipt.receipt if isinstance(receipt, Message) else receipt


def _header_words(headers: Headers) -> Iterable[Word]:
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return (word for name, value in pairs for word in ("HEADER", name, value))
