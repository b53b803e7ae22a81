"""Publishing the rows of a task: with ids, so that the rows of a task that is run again are stored once.

    rows with key, headers, ttl  parts of Arrow batches, one request    id   <run>/<task>/<first row>?digest=<digest>
    rows with other options      one request a row, pipelined           id   <run>/<task>/<row>?digest=<digest>

The run of a stream is its query and the micro-batch. The digest covers the whole command, so everything that is
published. If a task is run again with other rows, or with the same rows in another order, the broker knows the id of
the first request that differs with another digest and refuses it: the task fails, and no row is mistaken for another.

Does not know Spark. While the broker processes a request the next one is prepared; it is sent when the first is stored.
Sent earlier, it could be stored although the first is refused, and so overtake it. If the broker is full, paused or
restarting, the task waits, and so does what feeds it. Rows keep their order, except rows with other options that had to
wait for room.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from hashlib import sha256
from operator import itemgetter
from typing import Any, NamedTuple

import pyarrow as pa

from miniqueue.errors import ClientError
from miniqueue.spark.errors import NotWrittenError
from miniqueue.spark.packing import packed, parts_of, sizes_of
from miniqueue.spark.rows import OF_BATCHES, Row, rows_of
from miniqueue.spark.waiting import Waiting
from miniqueue_client import Client, Outgoing, RefusedError
from miniqueue_client.calls import messages as message_calls
from miniqueue_client.calls.call import Call, Word, may_follow
from miniqueue_client.calls.errors import UntrustedError, is_passing

#: Error codes of a broker that may accept the message later.
_LATER = frozenset({"LIMIT", "FULL", "PAUSED"})
#: Error codes for a message that is too long: as a message, or as a word of a command.
_TOO_LONG = frozenset({"TOOBIG", "ERR"})
#: Pause before a refused request is repeated: a broker that is full or paused rarely recovers faster.
PAUSE_SECONDS = 1.0
#: Maximum size of one batch, which is well below the limits of the broker; a single message can be larger.
BATCH_BYTES = 1 << 20
#: Length of a digest in hexadecimal digits: 96 bits, enough that two requests never share one by accident.
DIGEST_DIGITS = 24
#: Error code for an id that is known with another digest.
_OTHER_ROWS = "MISMATCH"
_SAME_ROWS = (
    "with deduplicate each attempt must write the same rows in the same order: sort them with sortWithinPartitions, "
    "or, to write all rows again, give another runId"
)


class Request(NamedTuple):
    """Calls that are sent as one pipeline.

    Attributes:
      calls: the calls; the broker accepts or refuses each of them separately.
      rows: the rows of all calls, by their numbers in the task.
      sizes: returns the size of each row in bytes.
    """

    calls: list[Call[Any]]
    rows: range
    sizes: Callable[[], Sequence[int]]


def publish_rows(
    client: Client,
    topic: str,
    batches: Iterable[pa.RecordBatch],
    *,
    id_prefix: str,
    batch_messages: int,
    waiting: Waiting,
) -> int:
    """Publish every row; return their number.

    Args:
      client: a client of the broker.
      topic: the topic, which is created if necessary.
      batches: the rows of the task, in the same order in each attempt.
      id_prefix: the prefix of the ids of the rows; "" for rows without ids.
      batch_messages: maximum number of rows of one request.
      waiting: how long to wait for a broker that accepts no rows.

    Raises NotWrittenError if the wait is over, or the broker refuses a row for good; ClientError.
    """
    count = 0
    with ThreadPoolExecutor(1) as sender:
        in_progress: Future[None] | None = None
        for request in _requests(topic, batches, id_prefix, batch_messages):
            _finish(in_progress)
            in_progress = sender.submit(_send, client, request, waiting)
            count += len(request.rows)
        _finish(in_progress)
    return count


def _finish(in_progress: Future[None] | None) -> None:
    if in_progress is not None:
        in_progress.result()


def _requests(topic: str, batches: Iterable[pa.RecordBatch], id_prefix: str, batch_messages: int) -> Iterator[Request]:
    max_count = min(batch_messages, message_calls.MAX_AT_ONCE)
    start = 0
    for part in parts_of(batches, max_count, BATCH_BYTES):
        yield from _requests_of(topic, part, id_prefix, start)
        start += part.num_rows


def _requests_of(topic: str, part: pa.RecordBatch, id_prefix: str, start: int) -> Iterator[Request]:
    if (messages := packed(part)) is not None:
        rows = range(start, start + part.num_rows)
        call = _identified(message_calls.publish_packed(topic, messages), id_prefix, start)
        yield Request([call], rows, lambda: sizes_of(part).to_pylist())
        return
    for rest in _cut(rows_of(part)):
        calls = _make(rest)(topic, rest, id_prefix, start)
        yield Request(calls, range(start, start + len(rest)), partial(_sizes, rest))
        start += len(rest)


def _sizes(rows: Sequence[Row]) -> list[int]:
    return [row.size_bytes for row in rows]


def _make(part: Sequence[Row]) -> Callable[[str, Sequence[Row], str, int], list[Call[Any]]]:
    """Return the function that makes the calls for rows, by the options that they need."""
    needed = set().union(*(row.options for row in part))
    return _together if needed <= OF_BATCHES else _row_by_row


def _cut(rows: Iterator[Row]) -> Iterator[list[Row]]:
    """Yield rows in parts that fit into one command."""
    part: list[Row] = []
    size_bytes = word_count = 0
    for row in rows:
        is_full = size_bytes + row.size_bytes > BATCH_BYTES or word_count + row.word_count > message_calls.MAX_AT_ONCE
        if part and is_full:
            yield part
            part, size_bytes, word_count = [], 0, 0
        part.append(row)
        size_bytes += row.size_bytes
        word_count += row.word_count
    if part:
        yield part


def _together(topic: str, rows: Sequence[Row], id_prefix: str, start: int) -> list[Call[Any]]:
    messages = [Outgoing(row.payload, **row.options) for row in rows]
    return [_identified(message_calls.publish_each(topic, messages), id_prefix, start)]


def _row_by_row(topic: str, rows: Sequence[Row], id_prefix: str, start: int) -> list[Call[Any]]:
    calls = [message_calls.publish(topic, row.payload, **row.options) for row in rows]
    return [_identified(call, id_prefix, number) for number, call in enumerate(calls, start)]


def _identified(call: Call[Any], id_prefix: str, row: int) -> Call[Any]:
    """Return a publish with an id of its first row and a digest of its words; without a prefix, the call itself."""
    if not id_prefix or call.with_id is None:
        return call
    return call.with_id(f"{id_prefix}/{row}?digest={_digest(call.words)}")


def _digest(words: Iterable[Word]) -> str:
    """Return a digest of all words of a command, each with its length."""
    digest = sha256()
    for word in words:
        encoded = word if isinstance(word, bytes) else str(word).encode()
        digest.update(b"%d:" % len(encoded))
        digest.update(encoded)
    return digest.hexdigest()[:DIGEST_DIGITS]


def _send(client: Client, request: Request, waiting: Waiting, sleep: Callable[[float], None] = time.sleep) -> None:
    """Carry out the calls, and repeat refused ones, until the broker has accepted all of them."""
    waiting.begin()
    refused = _refused_for_now(client, request, request.calls, waiting)
    while refused:
        sleep(PAUSE_SECONDS)
        refused = _refused_for_now(client, request, refused, waiting)


def _refused_for_now(client: Client, request: Request, calls: list[Call[Any]], waiting: Waiting) -> list[Call[Any]]:
    """Carry out calls of a request; return those that the broker may accept later."""
    try:
        results = client.execute_all(calls)
    except ClientError as exc:  # after the client's retries, which a broker's restart can outlast
        if not may_follow(calls, exc) or isinstance(exc, UntrustedError) or waiting.is_over:
            raise
        return calls
    outcomes = zip(calls, results, strict=True)
    refused = [(call, error) for call, error in outcomes if isinstance(error, RefusedError)]
    for call, error in refused:
        if not _is_accepted_later(error) or waiting.is_over:
            raise NotWrittenError(f"{_named(request, call, error)}: {error}") from error
    for _, error in refused[:1]:
        waiting.tell(error)
    return [call for call, _ in refused]


def _named(request: Request, call: Call[Any], error: RefusedError) -> str:
    """Return a text that names the rows of a call, and the longest of them if the error is its length."""
    rows = request.rows
    if len(request.calls) == len(rows):
        at = request.calls.index(call)
        rows = rows[at : at + 1]
    which = f"row {rows[0]} of the task" if len(rows) == 1 else f"one of the rows {rows[0]} to {rows[-1]} of the task"
    if error.code == _OTHER_ROWS:
        return f"{which}: an earlier attempt has published other rows there; {_SAME_ROWS}"
    if error.code not in _TOO_LONG:
        return which
    sizes = zip(request.sizes(), request.rows, strict=True)
    size_bytes, longest = max(((size, row) for size, row in sizes if row in rows), key=itemgetter(0))
    length = f"{size_bytes} bytes; -max-message-size of the broker says how many"
    return f"{which} ({length})" if len(rows) == 1 else f"{which} (the longest is row {longest}, {length})"


def _is_accepted_later(error: RefusedError) -> bool:
    return error.code in _LATER or is_passing(error)
