"""What both kinds of read do with a broker: find out what there is, and read ranges of it as Arrow.

Knows no Spark. A page is a record batch; a task reads on from page to page. The broker makes the next page while this
one is used, so that memory holds two of them.
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

from miniqueue.client import Bounds, Client, RefusedError, log_calls
from miniqueue.client.call import Call, Reply
from miniqueue.errors import ConfigError
from miniqueue.spark.losses import LostMessagesError
from miniqueue.spark.offsets import Offsets, Range, check_offsets, ends_of, starts_of
from miniqueue.spark.options import Options
from miniqueue.spark.rows import Found, batch_of, offset_of

log = logging.getLogger("miniqueue.spark")

PAGE_MESSAGES = 10_000
PAGE_BYTES = 4 << 20
#: What a broker says when there are no such offsets.
_GONE = frozenset({"NOTOPIC", "NOPARTITION", "BADOPTION"})


def bounds_of(client: Client, topics: list[str]) -> dict[str, list[Bounds]]:
    """Return what can be read of topics; of one that does not exist nothing."""
    return {topic: _bounds_of(client, topic) for topic in topics}


def _bounds_of(client: Client, topic: str) -> list[Bounds]:
    try:
        return client.partitions(topic)
    except RefusedError as exc:
        if exc.code != "NOTOPIC":
            raise
        return []


def missing_topics(client: Client, topics: Sequence[str]) -> list[str]:
    """Return what is wrong where a topic is not there: that, and the nearest name."""
    missing = [topic for topic, found in bounds_of(client, list(topics)).items() if not found]
    present = client.topics() if missing else []
    close = {topic: get_close_matches(topic, present, n=1) for topic in missing}
    return [
        f"there is no topic {topic} on {client.address}{f'; did you mean {found[0]}?' if found else ''}"
        for topic, found in close.items()
    ]


def check_topics(client: Client, options: Options) -> None:
    """Raise ConfigError where a topic is not there, unless messages may be missing: then these are."""
    if options["failOnDataLoss"] and (problems := missing_topics(client, options.topics)):
        raise ConfigError(problems)


def offsets_at(client: Client, options: Options, side: str, otherwise: str) -> Offsets:
    """Return the offsets that the options `<side>Offsets` or `<side>Time` mean.

    Args:
      client: of the broker.
      options: with these two.
      side: `starting` or `ending`.
      otherwise: `earliest` or `latest`, where neither is given.

    Raises ConfigError for offsets that cannot be, unless messages may be missing: then these are.
    """
    bounds = bounds_of(client, options.topics)
    if (time := options[f"{side}Time"]) is not None:
        return _offsets_of_time(client, bounds, time)
    given: str | Offsets = options[f"{side}Offsets"] or otherwise
    if isinstance(given, str):
        return starts_of(bounds) if given == "earliest" else ends_of(bounds)
    if unknown := given.keys() - bounds.keys():
        raise ConfigError([f"{side}Offsets has topics that are not read: {', '.join(sorted(unknown))}"])
    if options["failOnDataLoss"]:
        _check(f"{side}Offsets", given, bounds)
    known = starts_of(bounds) if side == "starting" else ends_of(bounds)
    return {topic: known[topic] | given.get(topic, {}) for topic in known}


def _check(name: str, given: Offsets, bounds: dict[str, list[Bounds]]) -> None:
    try:
        check_offsets(given, bounds)
    except ConfigError as exc:
        raise ConfigError([f"{name}: {exc}"]) from None


def _offsets_of_time(client: Client, bounds: dict[str, list[Bounds]], at: datetime) -> Offsets:
    return {
        topic: {one.partition: client.read_from(topic, at, one.partition, count=0).next for one in of}
        for topic, of in bounds.items()
    }


def read_range(client: Client, wanted: Range, *, may_miss: bool, with_origin: bool = False) -> Iterator[pa.RecordBatch]:
    """Yield the messages of a range; raises LostMessagesError when some are gone, unless they `may_miss`."""
    missed = 0
    for left, page in _pages(client, wanted):
        gone = left.size if page is None else min(page.missed, left.size)
        if gone and not may_miss:
            raise LostMessagesError(left.topic, left.partition, left.start, gone)
        if page is not None and (batch := _batch_of(page, left, with_origin=with_origin)) is not None:
            yield batch
        missed += gone
    if missed:
        log.warning("%d messages of %s, partition %s, are left out: they are gone", missed, *wanted[:2])


def _pages(client: Client, wanted: Range) -> Iterator[tuple[Range, "_Page | None"]]:
    """Yield what is left of a range, and the page that it begins with; the page behind it is asked for meanwhile."""
    left = wanted
    with ThreadPoolExecutor(1) as reader:
        under_way = reader.submit(_page, client, left) if left.size > 0 else None
        while under_way is not None:
            page = under_way.result()
            behind = left._replace(start=left.end if page is None else page.next)
            under_way = reader.submit(_page, client, behind) if behind.size > 0 else None
            yield left, page
            left = behind


def _batch_of(page: "_Page", left: Range, *, with_origin: bool) -> pa.RecordBatch | None:
    """Return the messages of a page that are in a range, if there are any."""
    found = page.found
    if page.next > left.end:  # something is missing in front of what was found
        found = [one for one in found if offset_of(one) < left.end]
    return batch_of(found, left.topic, left.partition, with_origin=with_origin) if found else None


@contextmanager
def _without_search_for_cycles() -> Iterator[None]:
    """Switch off the search for garbage with cycles: a page has none, and to look at all of it takes twice its time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _Page(NamedTuple):
    """A page as it was replied; where the next one begins, and how many are missing in front of it."""

    found: list[Found]
    next: int
    missed: int


def read_as_asked(options: Options, wanted: Range) -> Iterator[pa.RecordBatch]:
    """Yield the messages of a range as a task does, with a client of its own."""
    with options.client() as client, _without_search_for_cycles():
        yield from read_range(client, wanted, may_miss=not options["failOnDataLoss"], with_origin=options["withOrigin"])


def _page(client: Client, wanted: Range) -> _Page | None:
    """Return the first page; None when there is nothing like it: the topic is gone, or is another one by now."""
    count = min(PAGE_MESSAGES, wanted.size)
    call = log_calls.read(wanted.topic, wanted.partition, wanted.start, count=count, max_bytes=PAGE_BYTES)
    try:
        page = client.execute(Call(call.words, _parsed))
    except RefusedError as exc:
        if exc.code not in _GONE:
            raise
        return None
    return page if page.next > wanted.start else None


def _parsed(reply: Reply) -> _Page:
    return _Page(reply[b"messages"], reply[b"next"], reply[b"missed"])
