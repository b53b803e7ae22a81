"""READ and PARTITIONS: the log of a topic, read without a group.

    READ letters 0 17 COUNT 100            READ letters 0 TIME 1700000000000 COUNT 100 BYTES 65536
      ─▶ {earliest 5, end 900, missed 0, next 117, messages [[0-17, payload, {published_at_ms …}], …]}
    PARTITIONS letters  ─▶ [{partition 0, earliest 5, end 900, earliest_at_ms 1700000000000}]

`broker.inspect.log` explains the numbers.
"""

from typing import Final

from miniqueue.core.log.partition import LogBounds
from miniqueue.core.options.durations import parse_time_ms
from miniqueue.core.options.read import (
    DEFAULT_BYTES,
    DEFAULT_COUNT,
    ReadOptions,
    parse_count,
    parse_max_bytes,
    parse_offset,
    parse_partition,
    partition_word,
)
from miniqueue.server.resp.commands.context import Client, answer_later
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.log_pages import resp_runs
from miniqueue.wire.resp_arguments import ArityError, options_of
from miniqueue.wire.resp_parser import Command

#: Number of partitions that are encoded in one iteration of the event loop.
PARTITIONS_IN_TURN: Final = 100


def read(client: Client, command: Command) -> bytes:
    """Carry out READ; the reply comes later."""
    return answer_later(client, _read(client, command[1], parse_partition(command[2]), _options(command)))


def _options(command: Command) -> ReadOptions:
    offset = time_ms = None
    start = 4
    if command[3].upper() == b"TIME":
        if len(command) < 5:
            raise ArityError(-5)
        time_ms, start = parse_time_ms(command[4].decode("utf-8", "replace")), 5
    else:
        offset = parse_offset(command[3])
    words = options_of(command, start, (b"COUNT", b"BYTES"))
    max_count = parse_count(words[b"COUNT"]) if b"COUNT" in words else DEFAULT_COUNT
    max_bytes = parse_max_bytes(words[b"BYTES"]) if b"BYTES" in words else DEFAULT_BYTES
    return ReadOptions(offset, time_ms, max_count, max_bytes)


async def _read(client: Client, topic: bytes, partition: int, options: ReadOptions) -> bytes:
    page, protocol = await client.broker.inspect.log.read(topic, partition, options), client.session.protocol
    figures = {
        "earliest": page.bounds.earliest_seq,
        "end": page.bounds.end_seq,
        "missed": page.missed_count,
        "next": page.next_seq,
    }
    pairs = [(replies.encode(name, protocol), replies.integer(figure)) for name, figure in figures.items()]
    with client.broker.memory.reserve(page.content_bytes):
        messages = await client.broker.share.finish(resp_runs(partition, page.runs, protocol))
    return replies.map_of([*pairs, (replies.encode("messages", protocol), messages)], protocol)


def partitions(client: Client, command: Command) -> bytes:
    """Carry out PARTITIONS; the reply comes later."""
    return answer_later(client, _partitions(client, command[1]))


async def _partitions(client: Client, topic: bytes) -> bytes:
    partitions, protocol = await client.broker.inspect.log.partitions(topic), client.session.protocol

    def encode(partition: tuple[LogBounds, int | None]) -> bytes:
        bounds, at_ms = partition
        shown: dict[replies.Value, replies.Value] = {
            "partition": partition_word(bounds.partition),
            "earliest": bounds.earliest_seq,
            "end": bounds.end_seq,
            "earliest_at_ms": at_ms,
        }
        return replies.encode(shown, protocol)

    return replies.array(await client.broker.share.each(encode, partitions, PARTITIONS_IN_TURN))
