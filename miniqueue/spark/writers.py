"""Writing frames and streams to a topic: what Spark calls, on the driver and on the executors.

Spark runs a task again that failed or was slow, and after a restart the last micro-batch of a stream. The ids of rows
make that harmless, as long as the task gives the same rows in the same order and the topic remembers the ids
(`dedup_window_seconds`).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from miniqueue.client import Client
from miniqueue.spark.losses import NotWrittenError
from miniqueue.spark.options import Options
from miniqueue.spark.publishing import publish_rows
from miniqueue.spark.waiting import Waiting

#: Where Spark tells a task which stream it belongs to, and which micro-batch.
_QUERY, _MICRO_BATCH = "sql.streaming.queryId", "streaming.sql.batchId"


@dataclass
class Written(WriterCommitMessage):
    """What a task has done: how many rows it has written."""

    count: int


def _write(options: Options, run: str, iterator: Iterator[pa.RecordBatch]) -> Written:
    address = options.client().address
    waiting = Waiting(str(address), options["blockSeconds"])
    with Client.of(address, waiting.tell) as client:
        count = publish_rows(
            client,
            options["topic"],
            iterator,
            id_prefix=f"{run}/{_task().partitionId()}" if options["deduplicate"] else "",
            batch_messages=options["batchMessages"],
            waiting=waiting,
        )
    return Written(count)


def _task() -> TaskContext:
    task = TaskContext.get()
    if task is None:
        raise NotWrittenError("rows are written by tasks of Spark only")
    return task


class BatchWriter(DataSourceArrowWriter):
    """Writes a frame, once."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._run = options.run_id  # made on the driver, so that all tasks of the job have it, whichever attempt

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task, on an executor."""
        return _write(self._options, self._run, iterator)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes a stream, micro-batch by micro-batch."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task of a micro-batch, on an executor."""
        told = _task().getLocalProperty
        return _write(self._options, f"{told(_QUERY)}/{told(_MICRO_BATCH)}", iterator)
