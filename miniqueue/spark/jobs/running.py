"""What all jobs need while they run: to tell how far they are, and to fail in words that a person can use."""

import importlib
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from time import monotonic
from typing import Final, NamedTuple, Self, TypeAlias

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from miniqueue.errors import ConfigError, MiniqueueError
from miniqueue.spark.losses import JobFailedError
from miniqueue.spark.offsets import Offsets, ranges_between

#: Takes a line for a person.
Say: TypeAlias = Callable[[str], None]

#: What Spark lets through of the bridge to Java; a module without types, of a package that comes with pyspark.
Py4JError: Final[type[Exception]] = importlib.import_module("py4j.protocol").Py4JError
PROGRESS_SECONDS = 2.0
WAIT_SECONDS = 1
#: What matters in the many lines of Spark: the file that was read, and what Python or miniqueue said in the end.
_FILE: Final = re.compile(r"(?:reading|footer for) file[: ]+(\S+?)\.?(?:\s|$)")
_IN_PYTHON: Final = "PYTHON_DATA_SOURCE_ERROR"
_SAID: Final = re.compile(r"^(?:\w+\.)*(\w+(?:Error|Exception)): (.+)$", re.MULTILINE)
_CAUSED: Final = re.compile(r"^Caused by: (?:[\w$]+\.)*(\w+): (.+)$", re.MULTILINE)


@contextmanager
def told_in_words() -> Iterator[None]:
    """Raise JobFailedError, or ConfigError where the job was asked for what cannot be, for what Spark raises."""
    try:
        yield
    except (AnalysisException, ParseException) as exc:
        raise _planned_wrong(str(exc)) from exc
    except (PySparkException, Py4JError) as exc:
        raise _failed(cause_of(str(exc))) from exc


def _planned_wrong(text: str) -> MiniqueueError:
    """Return what a plan failed of: what was asked for, or what Python met in planning, as a broker that is down."""
    if _IN_PYTHON not in text:
        return ConfigError([_first_line(text)])
    return _failed(cause_of(text))


def _failed(cause: str) -> MiniqueueError:
    """Return what a cause means: a task may be the first to find out that an option is wrong."""
    kind, _, words = cause.partition(": ")
    return ConfigError([words]) if kind == ConfigError.__name__ else JobFailedError(cause)


@contextmanager
def having_set(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Have a session's settings be these, by name, for what is planned while the block runs."""
    before = {name: str(spark.conf.get(name)) for name in settings}
    try:
        for name, text in settings.items():
            spark.conf.set(name, text)
        yield
    finally:
        for name, text in before.items():
            spark.conf.set(name, text)


def observed(counts: Observation, frame: DataFrame) -> dict[str, int]:
    """Return the counts of a job that is done, by name; nothing where the frame has no row.

    Spark plans away what is sure to be empty, and what was to count its rows with it.
    """
    try:
        found: dict[str, int] = counts.get
    except Py4JError:
        if not frame.isEmpty():
            raise
        return {}
    return found


def cause_of(text: str) -> str:
    """Return the file and the cause that the text of Spark's error tells; its first line where it tells none."""
    files, said = _FILE.findall(text), _SAID.findall(text)
    caused = _CAUSED.findall(text)
    kind, words = (said or caused or [("", _first_line(text))])[-1] if not files else (caused or said or [("", "")])[-1]
    cause = f"{kind}: {words.strip()}" if kind else words
    return f"{files[0]}: {cause}" if files else cause


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


@contextmanager
def progress(spark: SparkSession, what: str, say: Say) -> Iterator[None]:
    """Say every other second how many tasks are done, for as long as the block runs."""
    done = threading.Event()
    thread = threading.Thread(target=_tell, args=(spark, what, say, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _tell(spark: SparkSession, what: str, say: Say, done: threading.Event) -> None:
    tracker = spark.sparkContext.statusTracker()
    began = monotonic()
    while not done.wait(PROGRESS_SECONDS):
        stages = [found for one in tracker.getActiveStageIds() if (found := tracker.getStageInfo(one)) is not None]
        finished, total = sum(one.numCompletedTasks for one in stages), sum(one.numTasks for one in stages)
        say(f"{what}: {tasks_told(finished, total)}, {monotonic() - began:.0f} s")


def tasks_told(finished: int, total: int) -> str:
    """Return how far a job is, in words; there are no tasks while Spark plans them, and between two stages."""
    return f"{finished} of {total} task{'' if total == 1 else 's'}" if total else "planning"


class Followed(NamedTuple):
    """What a stream has done: how many messages it has read, in how many steps, and how many were lost: gone before."""

    messages: int = 0
    steps: int = 0
    lost: int = 0

    def with_step(self, messages: int, lost: int) -> Self:
        """Return it with one more step."""
        return self._replace(messages=self.messages + messages, steps=self.steps + 1, lost=self.lost + lost)


def followed(query: StreamingQuery, what: str, say: Say, begins: Offsets | None = None) -> Followed:
    """Wait until a stream of topics ends, and say how far it is; return what it has done, but for steps of nothing.

    Args:
      query: the stream.
      what: it does, for a person.
      say: is told.
      begins: where its first step does, which Spark does not tell; None where it does not matter what is lost.
    """
    done, last = Followed(), -1  # no list: it may run for years
    is_over = False
    while not is_over:
        is_over = bool(query.awaitTermination(WAIT_SECONDS))
        before = done
        for one in query.recentProgress:
            if one.batchId > last and any(step := _step(one, begins)):
                done, last = done.with_step(*step), one.batchId
        if done != before:
            lost = f", {done.lost} lost" if done.lost else ""
            messages, steps = ("" if count == 1 else "s" for count in (done.messages, done.steps))
            say(f"{what}: {done.messages} message{messages} in {done.steps} step{steps}{lost}")
    return done


def _step(found: StreamingQueryProgress, begins: Offsets | None) -> tuple[int, int]:
    """Return how many messages a step has read, and how many it has not, since they were gone."""
    if begins is None:
        return found.numInputRows, 0
    [source] = found.sources
    start, end = (json.loads(text or "null") for text in (source.startOffset, source.endOffset))
    wanted = ranges_between(begins if start is None else start, end or {}, restarts=True)
    return found.numInputRows, sum(one.size for one in wanted) - found.numInputRows
