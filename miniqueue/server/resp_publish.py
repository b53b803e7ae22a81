"""Publishing over RESP with an id as the reply: PUB, one message with options; MPUBLISH, PUBBATCH and its kin, many.

    C: PUB orders hello DELAY 60 KEY k HEADER trace 7f          C: MPUBLISH orders one two
    S: 0-17                                                     S: [0-18, 0-19]

    C: PUB orders hello DEDUP 7f                                C: PUBBATCH orders 7f one two
    S: [0-20, 0], and once more: [0-20, 1]                      S: [[0-21, 0-22], 0], and once more: […, 1]
                                                                With the id "" nothing is remembered: […, 0] each time.

    C: PUBEACH orders 7f one 2 KEY k two 0 three 4 KEY k TTL 60          each with as many words of options as it says
    S: [[0-23, 0-24, 0-25], 0]

    C: PUBPACKED orders 80 <3 0 5> onethree                     sizes and what they are of, as `core.joined` has it
    S: [[0-26, 3], 0]                                           the first id of a run, and how many it has

A run of plain PUBLISH goes a shorter way, in `resp`; one of PUB with unique keys, in `resp_together`.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from miniqueue.broker.unique_publishing import Asked
from miniqueue.core.batch_options import NO_BATCH_OPTIONS, BatchOptions, parse_each, parse_packed
from miniqueue.core.message_id import format_message_id, runs_of, seqs_from
from miniqueue.core.publish_options import PublishOptions, check_batch_id, parse_words
from miniqueue.server import resp_together
from miniqueue.server.resp_together import marked
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.resp_parser import Command

if TYPE_CHECKING:
    from miniqueue.server.resp import RespConnection


def pub(connection: "RespConnection", command: Command) -> bytes:
    """Carry out PUB; the reply comes with its commit."""
    options = parse_words(command[3:])
    if options.unique_key:
        return resp_together.publish(connection, Asked(command[1], command[2], options))
    connection.when_room(partial(_pub, connection, command[1], command[2], options))
    return b""


def _pub(connection: "RespConnection", topic: bytes, payload: bytes, options: PublishOptions) -> None:
    resp_together.answer(connection, connection.broker.publish_with(topic, payload, options), options)


def mpublish(connection: "RespConnection", command: Command) -> bytes:
    """Carry out MPUBLISH; the reply comes with its commit."""
    connection.when_room(partial(_mpublish, connection, command[1], command[2:]))
    return b""


def _mpublish(connection: "RespConnection", topic: bytes, payloads: list[bytes]) -> None:
    published = connection.broker.publish(topic, payloads)
    connection.note_uncommitted(published.size_bytes)
    first_id = format_message_id(published.partition, published.first_seq)
    connection.wait_for(published.commit, _ids(first_id, len(payloads)))


def pubbatch(connection: "RespConnection", command: Command) -> bytes:
    """Carry out PUBBATCH; the reply comes with its commit."""
    dedup_id = check_batch_id(command[2])
    connection.when_room(partial(_publish_batch, connection, command[1], dedup_id, command[3:]))
    return b""


def pubeach(connection: "RespConnection", command: Command) -> bytes:
    """Carry out PUBEACH; the reply comes with its commit."""
    dedup_id = check_batch_id(command[2])
    payloads, each = parse_each(command[3:])
    connection.when_room(partial(_publish_batch, connection, command[1], dedup_id, payloads, each))
    return b""


def pubpacked(connection: "RespConnection", command: Command) -> bytes:
    """Carry out PUBPACKED; the reply comes with its commit."""
    dedup_id = check_batch_id(command[2])
    payloads, each = parse_packed(command[3:])
    connection.when_room(partial(_publish_batch, connection, command[1], dedup_id, payloads, each, tell=_runs))
    return b""


def _ids(message_id: bytes, count: int) -> bytes:
    """Return the array of the ids of messages that `message_id` tells."""
    runs = runs_of(message_id, count)
    bulks = [replies.bulk(first) if n == 1 else replies.numbered_bulks(*seqs_from(first, n)) for first, n in runs]
    return replies.joined_array(count, b"".join(bulks))


def _runs(message_id: bytes, count: int) -> bytes:
    """Return the array of the first id of each run of them, and how many it has."""
    runs = runs_of(message_id, count)
    return replies.joined_array(2 * len(runs), b"".join(replies.bulk(one) + replies.integer(n) for one, n in runs))


def _publish_batch(
    connection: "RespConnection",
    topic: bytes,
    dedup_id: bytes,
    payloads: list[bytes],
    each: BatchOptions = NO_BATCH_OPTIONS,
    *,
    tell: Callable[[bytes, int], bytes] = _ids,
) -> None:
    accepted = connection.broker.publish_batch(topic, payloads, dedup_id, each)
    connection.note_uncommitted(accepted.size_bytes)
    ids = tell(accepted.message_id, accepted.message_count)
    connection.wait_for(accepted.commit, marked(ids, accepted))
