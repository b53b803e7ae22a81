"""Publishing over RESP with an id as the reply: PUB, one message with options, and MPUBLISH, many or none.

    C: PUB orders hello DELAY 60 KEY k HEADER trace 7f          C: MPUBLISH orders one two
    S: 0-17                                                     S: [0-18, 0-19]

A run of plain PUBLISH goes a shorter way, in `resp`.
"""

from functools import partial
from typing import TYPE_CHECKING

from miniqueue.core.message_id import format_message_id
from miniqueue.core.publish_options import PublishOptions, parse_words
from miniqueue.errors import PayloadTooLargeError
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.resp_parser import Command

if TYPE_CHECKING:
    from miniqueue.server.resp import RespConnection


def pub(connection: "RespConnection", command: Command) -> bytes:
    """Carry out PUB; the reply comes with its commit."""
    options = parse_words(command[3:])
    connection.when_room(partial(_pub, connection, command[1], command[2], options))
    return b""


def _pub(connection: "RespConnection", topic: bytes, payload: bytes, options: PublishOptions) -> None:
    try:
        accepted = connection.broker.publish_with(topic, payload, options)
    except PayloadTooLargeError as exc:
        connection.broker.limit_counts.note(exc)
        raise
    connection.note_uncommitted(accepted.size_bytes)
    connection.wait_for(accepted.commit, replies.bulk(accepted.message_id))


def mpublish(connection: "RespConnection", command: Command) -> bytes:
    """Carry out MPUBLISH; the reply comes with its commit."""
    connection.when_room(partial(_mpublish, connection, command[1], command[2:]))
    return b""


def _mpublish(connection: "RespConnection", topic: bytes, payloads: list[bytes]) -> None:
    published = connection.broker.publish(topic, payloads)
    connection.note_uncommitted(published.size_bytes)
    seqs = range(published.first_seq, published.first_seq + len(payloads))
    ids = [replies.bulk(format_message_id(published.partition, seq)) for seq in seqs]
    connection.wait_for(published.commit, replies.array(ids))
