"""The log of a topic in a backup: the messages of all partitions, and parts, in the order of their commits.

Within a partition the order is that of the log. Only the chunk that is next in each partition is in memory.
"""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from heapq import merge
from itertools import repeat
from pathlib import Path

from miniqueue.commands.stored.values import message_of
from miniqueue.core.message.parts import whole_of
from miniqueue.errors import ConfigError
from miniqueue.server.process.escaping import quote
from miniqueue.storage.format import keys, values
from miniqueue.storage.format.keys import Space
from miniqueue.storage.leveldb.shards import stores_in
from miniqueue.storage.leveldb.view import StoreView, viewed
from miniqueue_client import Message


def messages_in_backup(directory: Path, topic: str) -> Iterator[Message]:
    """Yield the messages of a topic; raises ConfigError if there is no such topic, StorageError for a bad store."""
    with ExitStack() as opened:
        ids = [
            (view, topic_id)
            for store in stores_in(directory)
            for view in [opened.enter_context(viewed(store))]
            for topic_id in _topic_ids(view, topic)
        ]
        if not ids:
            raise ConfigError([f"there is no topic {quote(topic)} in {quote(str(directory))}"])
        logs = [
            _log(view, topic, topic_id, partition)
            for view, topic_id in ids
            for partition in _partitions(view, topic_id)
        ]
        yield from merge(*logs, key=lambda message: message.published_at_ms)


def _topic_ids(view: StoreView, topic: str) -> Iterator[int]:
    """Yield the ids of a topic, and of its parts if it is spread, in one store."""
    name = topic.encode("utf-8", "surrogateescape")
    for key, value in view.pairs_of(keys.topics()):
        if whole_of(keys.topic_name(key)) == name:
            yield values.decode_topic(value)[0]


def _partitions(view: StoreView, topic_id: int) -> Iterator[int]:
    """Yield the partitions that have chunks, from the first chunk of each."""
    start, stop = keys.topic_range(Space.CHUNK, topic_id)
    while True:
        with closing(view.pairs_of((start, stop))) as pairs:
            if (pair := next(pairs, None)) is None:
                return
        partition = keys.parse(pair[0]).partition
        yield partition
        start = keys.chunks(topic_id, partition, 0)[1]


def _log(view: StoreView, topic: str, topic_id: int, partition: int) -> Iterator[Message]:
    for key, value in view.pairs_of(keys.chunks(topic_id, partition, 0)):
        chunk = values.decode_chunk(keys.chunk_first_seq(key), value)
        attributes = repeat(b"") if chunk.attributes is None else chunk.attributes
        for index, (payload, encoded) in enumerate(zip(chunk.payloads, attributes, strict=False)):
            yield message_of(topic, partition, chunk.first_seq + index, payload, chunk.committed_at_ms, encoded)
