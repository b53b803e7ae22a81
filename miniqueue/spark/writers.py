"""Writers that Spark calls: a batch and a stream, on the driver and on the executors.

Spark runs a task again if it failed or was slow, and after a restart the last micro-batch of a stream. The ids of rows
make that harmless, as long as the task yields the same rows in the same order and the topic remembers the ids
(`dedup_window_seconds`).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from miniqueue.spark.errors import NotWrittenError
from miniqueue.spark.options import Options
from miniqueue.spark.publishing import publish_rows
from miniqueue.spark.waiting import Waiting
from miniqueue_client import Client

#: Local properties of a task of a stream: the id of the query, and the number of the micro-batch.
_QUERY, _MICRO_BATCH = "sql.streaming.queryId", "streaming.sql.batchId"


@dataclass
class Written(WriterCommitMessage):
    """The result of a task: the number of rows written."""

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
        self._run = options.run_id  # set on the driver, so that all tasks and attempts share it

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task, on an executor."""
        return _write(self._options, self._run, iterator)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes a stream, micro-batch by micro-batch."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task of a micro-batch, on an executor."""
        task = _task()
        run = f"{task.getLocalProperty(_QUERY)}/{task.getLocalProperty(_MICRO_BATCH)}"
        return _write(self._options, run, iterator)
