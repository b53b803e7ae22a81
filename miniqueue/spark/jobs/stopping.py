"""Ends a job on SIGINT or SIGTERM, while its thread talks to Spark.

    a signal        ─▶ a flag ─▶ a thread stops the streams and cancels the tasks, repeatedly until the job is over
    another signal  ─▶ the process ends at once

Spark's own handler of SIGINT sends commands to Spark in the middle of a command of the main thread, which garbles both.
Files remain complete, since canceled tasks have committed none; a stream continues from its checkpoint, and messages
that were published are recognized by their ids.
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
#: Interval between two checks of the flag, and between two attempts to end the job.
_AGAIN_SECONDS: Final = 0.2


class Stopping:
    """Handles signals while the context is entered, and ends the work of a session.

    Only the main thread can handle signals; in another thread this handles none.
    """

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._before = {number: signal.getsignal(number) for number in STOP_SIGNALS}

    @property
    def is_asked(self) -> bool:
        """Whether a signal has been received."""
        return self._asked.is_set()

    def __enter__(self) -> Self:
        """Handle signals from now on."""
        self.listen()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Restore the former handlers of the signals."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        self._handle(self._before)

    def attend(self, spark: SparkSession) -> None:
        """End the work of a session when a signal arrives, or if one has arrived already."""
        self._thread = threading.Thread(target=self._end_when_asked, args=(spark,), daemon=True)
        self._thread.start()

    def listen(self) -> None:
        """Handle signals again after other code has set its own handlers."""
        self._handle(dict.fromkeys(STOP_SIGNALS, signal.SIG_DFL if self.is_asked else self._on_signal))

    @staticmethod
    def _handle(handlers: "dict[signal.Signals, signal._HANDLER]") -> None:
        if threading.current_thread() is threading.main_thread():
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._handle(dict.fromkeys(STOP_SIGNALS, signal.SIG_DFL))  # first: a second signal during `set` would deadlock
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
