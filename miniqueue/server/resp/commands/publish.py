"""Publish commands that return ids: PUB, one message with options; MPUBLISH, PUBBATCH, PUBEACH and PUBPACKED, many.

    C: PUB orders hello DELAY 60 KEY k HEADER trace 7f          C: MPUBLISH orders one two
    S: 0-17                                                     S: [0-18, 0-19]

    C: PUB orders hello DEDUP 7f                                C: PUBBATCH orders 7f one two
    S: [0-20, 0], repeated: [0-20, 1]                           S: [[0-21, 0-22], 0], repeated: […, 1]
                                                                With the id "" there is no deduplication: always […, 0].

    C: PUBEACH orders 7f one 2 KEY k two 0 three 4 KEY k TTL 60          each with the number of its option words
    S: [[0-23, 0-24, 0-25], 0]

    C: PUBPACKED orders 80 <3 0 5> onethree                     sizes, and the messages joined, see `core.options.batch`
    S: [[0-26, 3], 0]                                           the first id of each run, and its length

The connection itself publishes runs of PUBLISH. PUBs with unique keys that come in one pipeline are published together,
with one read of the store and one commit:

    PUB t a UNIQUE 1   PUB t b UNIQUE 2   PUB t c   PUB t d UNIQUE 1   LEN t
    └ holds the connection, takes the next PUBs ─▶ looked up, published ─▶ committed ─▶ continues with LEN
                                                                           └ a reply for each

They are the PUBs after the first one, with a unique key or without, up to the first other command and up to a limit;
the PUBs after the limit are published together next. Each command is checked as if it were alone.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import structlog

from miniqueue.broker import Accepted, Published
from miniqueue.broker.publish.unique import Asked
from miniqueue.broker.transactions.acts import PublishBatch, PublishWith
from miniqueue.core.message.ids import format_message_id, runs_of, seqs_from
from miniqueue.core.options.batch import NO_BATCH_OPTIONS, BatchOptions, parse_each, parse_packed
from miniqueue.core.options.publish import PublishOptions, check_batch_id, parse_words
from miniqueue.errors import InternalError, MiniqueueError, PayloadTooLargeError
from miniqueue.server.resp.commands.context import INTERNAL_ERROR, Client
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.resp_parser import Command
from miniqueue.wire.resp_reader import Parsed

log = structlog.get_logger()

#: Maximum number of messages that are published together, in one event-loop callback; more than most pipelines have.
MAX_TOGETHER: Final = 128
#: Maximum size of the commands that are taken together, without the first and the last.
MAX_TOGETHER_BYTES: Final = 64 << 10
#: Words of a PUB before its options.
_WORDS: Final = 3


def publish(client: Client, first: Asked) -> bytes:
    """Publish a message, and those that come next, after their keys have been looked up; the replies come later."""
    client.hold()
    client.spawn(_publish(client, first))
    return b""


def marked(reply: bytes, accepted: Accepted) -> bytes:
    """Return a reply together with whether the message is a duplicate."""
    return replies.array([reply, replies.integer(accepted.is_duplicate)])


async def _publish(client: Client, first: Asked) -> None:
    together = [first, *(_asked(client, command) for command in client.take_next(_Bound().lets))]
    asked = [request for request in together if isinstance(request, Asked)]
    results = await _results(client, asked)
    try:
        if not client.is_closing:
            _reply_all(client, together, iter(results))
        for commit in {result.commit for result in results if isinstance(result, Accepted)}:
            with suppress(MiniqueueError):  # the replies report it
                await commit.wait()
    finally:
        client.release(b"")


async def _results(client: Client, asked: list[Asked]) -> Sequence[Accepted | MiniqueueError]:
    try:
        return await client.broker.publish_several(asked)
    except Exception:  # a bug must not leave the connection held forever
        log.exception("PUB failed")
        return [InternalError(INTERNAL_ERROR)] * len(asked)


def _reply_all(
    client: Client,
    together: list[Asked | MiniqueueError],
    results: Iterator[Accepted | MiniqueueError],
) -> None:
    """Queue the replies; `results` are those of the messages that were not refused."""
    for request in together:
        if isinstance(request, Asked):
            _reply(client, next(results), request.options)
        else:
            client.reply(replies.error(request.code, str(request)))


class _Bound:
    """Limits which commands are taken together."""

    def __init__(self) -> None:
        self._rest_count, self._rest_bytes = MAX_TOGETHER - 1, MAX_TOGETHER_BYTES

    def lets(self, command: Parsed) -> bool:
        """Return whether a command is a PUB and within the limit."""
        if not isinstance(command, list) or command[0].upper() != b"PUB" or len(command) < _WORDS:
            return False
        is_within = self._rest_count > 0 and self._rest_bytes > 0
        self._rest_count -= 1
        self._rest_bytes -= sum(map(len, command))
        return is_within


def _asked(client: Client, command: Parsed) -> Asked | MiniqueueError:
    """Return the message that a command publishes, or the error that refuses the command."""
    assert isinstance(command, list)  # no runs are taken
    try:
        if client.guard is not None:
            client.guard.check(command)
        return Asked(command[1], command[2], parse_words(command[_WORDS:]))
    except MiniqueueError as exc:
        return exc


def _reply(client: Client, result: Accepted | MiniqueueError, options: PublishOptions) -> None:
    """Queue the reply to one message."""
    if not isinstance(result, MiniqueueError):
        answer(client, result, options)
        return
    if isinstance(result, PayloadTooLargeError):
        client.broker.limit_counts.note(result)
    client.reply(replies.error(result.code, str(result)))


def answer(client: Client, accepted: Accepted, options: PublishOptions) -> None:
    """Queue the reply to a PUB; it is sent with its commit."""
    client.wait_for(accepted.commit, pub_reply(accepted, options), 1, accepted.size_bytes)


def pub_reply(accepted: Accepted, options: PublishOptions) -> bytes:
    """Return the reply to a PUB."""
    message_id = replies.bulk(accepted.message_id)
    return marked(message_id, accepted) if options.dedup_id or options.unique_key else message_id


def parse_pub(command: Command) -> PublishWith:
    """Return the act of a PUB, as a part of a transaction."""
    return PublishWith(command[1], command[2], parse_words(command[_WORDS:]))


def parse_batch(command: Command) -> PublishBatch:
    """Return the act of a PUBBATCH, PUBEACH or PUBPACKED, as a part of a transaction."""
    parse = {b"PUBEACH": parse_each, b"PUBPACKED": parse_packed}.get(command[0].upper())
    payloads, each = (command[3:], NO_BATCH_OPTIONS) if parse is None else parse(command[3:])
    return PublishBatch(command[1], payloads, check_batch_id(command[2]), each)


def pub(client: Client, command: Command) -> bytes:
    """Carry out PUB; the reply comes with its commit."""
    options = parse_words(command[3:])
    if options.unique_key:
        return publish(client, Asked(command[1], command[2], options))
    client.when_room(partial(_pub, client, command[1], command[2], options))
    return b""


def _pub(client: Client, topic: bytes, payload: bytes, options: PublishOptions) -> None:
    answer(client, client.broker.publish_with(topic, payload, options), options)


def mpublish(client: Client, command: Command) -> bytes:
    """Carry out MPUBLISH; the reply comes with its commit."""
    client.when_room(partial(_mpublish, client, command[1], command[2:]))
    return b""


def _mpublish(client: Client, topic: bytes, payloads: list[bytes]) -> None:
    published = client.broker.publish(topic, payloads)
    client.wait_for(published.commit, mpublish_reply(published, len(payloads)), 1, published.size_bytes)


def mpublish_reply(published: Published, count: int) -> bytes:
    """Return the reply to an MPUBLISH of `count` messages."""
    first_id = format_message_id(published.partition, published.first_seq)
    return replies.joined_array(count, _bulks(first_id, count))


def pubbatch(client: Client, command: Command) -> bytes:
    """Carry out PUBBATCH; the reply comes with its commit."""
    dedup_id = check_batch_id(command[2])
    client.when_room(partial(_publish_batch, client, command[1], dedup_id, command[3:]))
    return b""


def pubeach(client: Client, command: Command) -> bytes:
    """Carry out PUBEACH; the reply comes with its commit."""
    dedup_id = check_batch_id(command[2])
    payloads, each = parse_each(command[3:])
    client.when_room(partial(_publish_batch, client, command[1], dedup_id, payloads, each))
    return b""


def pubpacked(client: Client, command: Command) -> bytes:
    """Carry out PUBPACKED; the reply comes with its commit."""
    dedup_id = check_batch_id(command[2])
    payloads, each = parse_packed(command[3:])
    client.when_room(partial(_publish_batch, client, command[1], dedup_id, payloads, each, encode_ids=runs_of_ids))
    return b""


def all_ids(message_id: bytes, count: int) -> bytes:
    """Return the array of the ids of `count` messages; `message_id` contains them all."""
    first, *others = runs_of(message_id, count)
    bulks = _bulks(*first)
    if others:
        bulks = b"".join([bulks, *(_bulks(*run) for run in others)])
    return replies.joined_array(count, bulks)


def _bulks(first_id: bytes, count: int) -> bytes:
    """Return the ids of `count` messages that follow each other, each as a bulk string."""
    return replies.bulk(first_id) if count == 1 else replies.numbered_bulks(*seqs_from(first_id, count))


def runs_of_ids(message_id: bytes, count: int) -> bytes:
    """Return the array of the first id and the length of each run of ids."""
    runs = runs_of(message_id, count)
    return replies.joined_array(2 * len(runs), b"".join(replies.bulk(first) + replies.integer(n) for first, n in runs))


def _publish_batch(
    client: Client,
    topic: bytes,
    dedup_id: bytes,
    payloads: list[bytes],
    each: BatchOptions = NO_BATCH_OPTIONS,
    *,
    encode_ids: Callable[[bytes, int], bytes] = all_ids,
) -> None:
    accepted = client.broker.publish_batch(topic, payloads, dedup_id, each)
    client.wait_for(accepted.commit, batch_reply(accepted, encode_ids), 1, accepted.size_bytes)


def batch_reply(accepted: Accepted, encode_ids: Callable[[bytes, int], bytes]) -> bytes:
    """Return the reply to a PUBBATCH, PUBEACH, or PUBPACKED."""
    return marked(encode_ids(accepted.message_id, accepted.message_count), accepted)
