"""A job that is stopped: the first signal is noted, a thread ends what Spark does, and the next signal ends all."""

import signal
import threading

import pytest

from miniqueue.spark.jobs import stopping
from miniqueue.spark.jobs.stopping import Stopping


class FakeSpark:
    """A session with one stream; `cancelAllJobs` fails a number of times, as when Spark is gone."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.stopped = threading.Event()
        self.cancelled = threading.Event()
        self.streams = self
        self.sparkContext = self

    @property
    def active(self):
        return [self]

    def stop(self):
        self.stopped.set()

    def cancelAllJobs(self):  # noqa: N802 - Spark's name
        if self.failures:
            self.failures -= 1
            raise ConnectionRefusedError
        self.cancelled.set()


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(stopping, "_AGAIN_SECONDS", 0.001)


@pytest.mark.parametrize("number", stopping.STOP_SIGNALS)
def test_a_signal_ends_streams_and_tasks_and_is_handled_as_before_when_the_job_is_over(number):
    before = signal.getsignal(number)
    spark = FakeSpark(failures=2)
    with Stopping() as stop:
        stop.attend(spark)
        assert not stop.is_asked
        signal.raise_signal(number)
        assert stop.is_asked
        assert spark.cancelled.wait(30)
        assert spark.stopped.is_set()
        assert signal.getsignal(number) is signal.SIG_DFL  # the next one ends the process
    assert signal.getsignal(number) is before


def test_nothing_is_ended_without_a_signal():
    spark = FakeSpark()
    with Stopping() as stop:
        stop.attend(spark)
    assert not spark.stopped.is_set()
    assert not stop.is_asked


def test_a_handler_that_spark_has_set_meanwhile_is_replaced():
    with Stopping() as stop:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        stop.listen()
        signal.raise_signal(signal.SIGINT)
        assert stop.is_asked


def test_another_thread_than_the_main_one_handles_no_signals():
    before = signal.getsignal(signal.SIGINT)

    def run() -> None:
        with Stopping() as stop:
            stop.attend(FakeSpark())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(30)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_signal_in_the_middle_of_the_first_does_not_wait_for_it_for_ever():
    handlers = []

    class Noted(threading.Event):
        def set(self) -> None:  # holds a lock: a handler that came in between would wait for it
            handlers.extend(signal.getsignal(number) for number in stopping.STOP_SIGNALS)
            super().set()

    with Stopping() as stop:
        stop._asked = Noted()
        signal.raise_signal(signal.SIGINT)
    assert handlers == [signal.SIG_DFL] * 2
