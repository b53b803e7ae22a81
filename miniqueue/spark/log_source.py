"""Reading from a broker: what topics contain, and ranges of them as Arrow record batches.

Does not know Spark. Each page is one record batch, and a task reads page after page. The broker prepares the next page
while one is processed, so memory contains two pages.
"""

import gc
import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from difflib import get_close_matches
from typing import NamedTuple

import pyarrow as pa

from miniqueue.errors import ConfigError
from miniqueue.spark.errors import LostMessagesError
from miniqueue.spark.offsets import Offsets, Range, check_offsets, ends_of, starts_of
from miniqueue.spark.options import Options
from miniqueue.spark.rows import ReadMessage, batch_of, offset_of
from miniqueue_client import Bounds, Client, RefusedError
from miniqueue_client.calls import logs
from miniqueue_client.calls.call import Call, Reply

log = logging.getLogger("miniqueue.spark")

#: The broker's limits for one page of READ; large pages cost the least for each message.
PAGE_MESSAGES = 10_000
PAGE_BYTES = 4 << 20
#: Error codes for offsets that do not exist.
_GONE = frozenset({"NOTOPIC", "NOPARTITION", "BADOPTION"})


def bounds_of(client: Client, topics: list[str]) -> dict[str, list[Bounds]]:
    """Return the partitions of topics, with their offsets; none for a topic that does not exist."""
    return {topic: _bounds_of(client, topic) for topic in topics}


def _bounds_of(client: Client, topic: str) -> list[Bounds]:
    try:
        return client.partitions(topic)
    except RefusedError as exc:
        if exc.code != "NOTOPIC":
            raise
        return []


def missing_topics(client: Client, topics: Sequence[str]) -> list[str]:
    """Return an error for each topic that does not exist, with the nearest name."""
    missing = [topic for topic, partitions in bounds_of(client, list(topics)).items() if not partitions]
    present = client.topics() if missing else []
    close = {topic: get_close_matches(topic, present, n=1) for topic in missing}
    return [
        f"there is no topic {topic} on {client.address}{f'; did you mean {names[0]}?' if names else ''}"
        for topic, names in close.items()
    ]


def check_topics(client: Client, options: Options) -> None:
    """Raise ConfigError if a topic does not exist, unless messages may be missing: then its messages are."""
    if options["failOnDataLoss"] and (problems := missing_topics(client, options.topics)):
        raise ConfigError(problems)


def offsets_at(client: Client, options: Options, side: str, otherwise: str) -> Offsets:
    """Return the offsets of the option `<side>Offsets` or `<side>Time`.

    Args:
      client: a client of the broker.
      options: the options of the read.
      side: `starting` or `ending`.
      otherwise: the default, `earliest` or `latest`.

    Raises ConfigError for offsets that do not exist, unless messages may be missing: then those are.
    """
    bounds = bounds_of(client, options.topics)
    if (time := options[f"{side}Time"]) is not None:
        return _offsets_of_time(client, bounds, time)
    offsets: str | Offsets = options[f"{side}Offsets"] or otherwise
    if isinstance(offsets, str):
        return starts_of(bounds) if offsets == "earliest" else ends_of(bounds)
    if unknown := offsets.keys() - bounds.keys():
        raise ConfigError([f"{side}Offsets has topics that are not read: {', '.join(sorted(unknown))}"])
    if options["failOnDataLoss"]:
        _check(f"{side}Offsets", offsets, bounds)
    known = starts_of(bounds) if side == "starting" else ends_of(bounds)
    return {topic: known[topic] | offsets.get(topic, {}) for topic in known}


def _check(name: str, offsets: Offsets, bounds: dict[str, list[Bounds]]) -> None:
    try:
        check_offsets(offsets, bounds)
    except ConfigError as exc:
        raise ConfigError([f"{name}: {exc}"]) from None


def _offsets_of_time(client: Client, bounds: dict[str, list[Bounds]], at: datetime) -> Offsets:
    return {
        topic: {part.partition: client.read_from(topic, at, part.partition, count=0).next for part in of}
        for topic, of in bounds.items()
    }


def read_range(client: Client, wanted: Range, *, may_miss: bool, with_origin: bool = False) -> Iterator[pa.RecordBatch]:
    """Yield the messages of a range; raises LostMessagesError if some no longer exist, unless `may_miss`."""
    missed = 0
    for rest, page in _pages(client, wanted):
        lost_count = rest.size if page is None else min(page.missed, rest.size)
        if lost_count and not may_miss:
            raise LostMessagesError(rest.topic, rest.partition, rest.start, lost_count)
        if page is not None and (batch := _batch_of(page, rest, with_origin=with_origin)) is not None:
            yield batch
        missed += lost_count
    if missed:
        log.warning("%d messages of %s, partition %s, are left out: they are gone", missed, *wanted[:2])


def _pages(client: Client, wanted: Range) -> Iterator[tuple[Range, "_Page | None"]]:
    """Yield the rest of a range with its first page, while the next page is already requested."""
    rest = wanted
    with ThreadPoolExecutor(1) as reader:
        in_progress = reader.submit(_page, client, rest) if rest.size > 0 else None
        while in_progress is not None:
            page = in_progress.result()
            following = rest._replace(start=rest.end if page is None else page.next)
            in_progress = reader.submit(_page, client, following) if following.size > 0 else None
            yield rest, page
            rest = following


def _batch_of(page: "_Page", rest: Range, *, with_origin: bool) -> pa.RecordBatch | None:
    """Return the messages of a page that are in a range; None if there are none."""
    messages = page.messages
    if page.next > rest.end:  # messages before the first are missing, so the page extends beyond the range
        messages = [message for message in messages if offset_of(message) < rest.end]
    return batch_of(messages, rest.topic, rest.partition, with_origin=with_origin) if messages else None


@contextmanager
def _without_garbage_collector() -> Iterator[None]:
    """Disable the cyclic garbage collector: pages contain no cycles, and scanning them doubles their time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _Page(NamedTuple):
    """A page of READ: its messages, the start of the next page, and how many messages are missing before it."""

    messages: list[ReadMessage]
    next: int
    missed: int


def read_as_asked(options: Options, wanted: Range) -> Iterator[pa.RecordBatch]:
    """Yield the messages of a task's range, with a client of its own."""
    with options.client() as client, _without_garbage_collector():
        yield from read_range(client, wanted, may_miss=not options["failOnDataLoss"], with_origin=options["withOrigin"])


def _page(client: Client, wanted: Range) -> _Page | None:
    """Return the first page of a range; None if the topic was deleted, or deleted and created again."""
    count = min(PAGE_MESSAGES, wanted.size)
    call = logs.read(wanted.topic, wanted.partition, wanted.start, count=count, max_bytes=PAGE_BYTES)
    try:
        page = client.execute(Call(call.words, _parsed))
    except RefusedError as exc:
        if exc.code not in _GONE:
            raise
        return None
    return page if page.next > wanted.start else None


def _parsed(reply: Reply) -> _Page:
    return _Page(reply[b"messages"], reply[b"next"], reply[b"missed"])
