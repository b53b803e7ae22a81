"""Publishing the rows of a task: with ids, so that the same rows of a task that runs again are stored once.

    id of a row   <run>/<partition of the task>/<number of the row>      the run of a stream: <query>/<micro-batch>

Knows no Spark. A broker that is full, paused or restarting is waited for: the task stands still, and so does what feeds
it. Rows keep their order, but for those that had to wait for room.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import pyarrow as pa

from miniqueue.client import Client, RefusedError, message_calls
from miniqueue.client.call import Call
from miniqueue.client.refusals import is_passing
from miniqueue.spark.losses import NotWrittenError
from miniqueue.spark.rows import rows_of

#: What a broker says that will take the message later.
_LATER = frozenset({"LIMIT", "FULL", "PAUSED"})
PAUSE_SECONDS = 1.0


def publish_rows(
    client: Client,
    topic: str,
    batches: Iterable[pa.RecordBatch],
    *,
    id_prefix: str,
    batch_messages: int,
    block_seconds: float,
) -> int:
    """Publish every row; return how many there were.

    Args:
      client: of the broker.
      topic: made if there is none.
      batches: of the task, in the same order whenever it runs.
      id_prefix: what the ids of the rows begin with; "" for rows without ids.
      batch_messages: how many rows are sent in one go.
      block_seconds: how long to wait for a broker that takes none.

    Raises NotWrittenError when it takes none for so long, or refuses a row for good; ClientError.
    """
    calls = _calls(topic, batches, id_prefix)
    count = 0
    while batch := list(islice(calls, batch_messages)):
        _publish(client, batch, count, time.monotonic() + block_seconds)
        count += len(batch)
    return count


def _calls(topic: str, batches: Iterable[pa.RecordBatch], id_prefix: str) -> Iterator[Call[str]]:
    rows = (row for batch in batches for row in rows_of(batch))
    for number, (payload, given) in enumerate(rows):
        dedup: dict[str, Any] = {"dedup_id": f"{id_prefix}/{number}"} if id_prefix else {}
        yield message_calls.publish(topic, payload, **given, **dedup)


def _publish(
    client: Client,
    calls: list[Call[str]],
    first_row: int,
    ends_at: float,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Publish rows, those that were refused again, until all of them are taken."""
    left = dict(enumerate(calls, first_row))
    while left:
        results = client.execute_all(list(left.values()))
        refused = {row: one for row, one in zip(left, results, strict=True) if isinstance(one, RefusedError)}
        for row, error in refused.items():
            if not _is_taken_later(error) or time.monotonic() > ends_at:
                raise NotWrittenError(f"row {row} of the task: {error}") from error
        left = {row: left[row] for row in refused}
        if left:
            sleep(PAUSE_SECONDS)


def _is_taken_later(error: RefusedError) -> bool:
    return error.code in _LATER or is_passing(error)
