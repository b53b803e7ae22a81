"""Ends a job on SIGINT or SIGTERM, while its thread speaks to Spark.

    a signal  ─▶ a note ─▶ a thread stops the streams and cancels the tasks, again and again until the job is over
    one more  ─▶ the process ends at once

Spark's own handler of SIGINT speaks to Spark in the middle of what the main thread is saying to it, after which neither
is understood. Files stay whole, since tasks that are cancelled have committed none; a stream goes on from its
checkpoint, and what was published is known again by its ids.
"""

import signal
import threading
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Final, Self

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from miniqueue.spark.jobs.running import Py4JError

STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_AGAIN_SECONDS: Final = 0.2


class Stopping:
    """Notes signals while it is entered, and ends what a session does.

    Outside of the main thread, which alone may handle signals, it notes none.
    """

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._before = {number: signal.getsignal(number) for number in STOP_SIGNALS}

    @property
    def is_asked(self) -> bool:
        """Whether there was a signal."""
        return self._asked.is_set()

    def __enter__(self) -> Self:
        """Note signals from now on."""
        self.listen()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Have signals do again what they did before."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        self._handle(self._before)

    def attend(self, spark: SparkSession) -> None:
        """End what a session does when there was or will be a signal."""
        self._thread = threading.Thread(target=self._end_when_asked, args=(spark,), daemon=True)
        self._thread.start()

    def listen(self) -> None:
        """Note signals also after somebody else has set a handler."""
        self._handle(dict.fromkeys(STOP_SIGNALS, signal.SIG_DFL if self.is_asked else self._on_signal))

    @staticmethod
    def _handle(handlers: "dict[signal.Signals, signal._HANDLER]") -> None:
        if threading.current_thread() is threading.main_thread():
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._handle(dict.fromkeys(STOP_SIGNALS, signal.SIG_DFL))  # first: one more in `set` would wait for itself
        self._asked.set()

    def _end_when_asked(self, spark: SparkSession) -> None:
        while not self._over.wait(_AGAIN_SECONDS):
            if self.is_asked:
                with suppress(PySparkException, Py4JError, OSError):  # the next turn tries again
                    _end(spark)


def _end(spark: SparkSession) -> None:
    for query in spark.streams.active:
        query.stop()
    spark.sparkContext.cancelAllJobs()
