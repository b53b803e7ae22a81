"""The run of a job: progress, readable errors, streams until they end, and the topics and the group of a read."""

import importlib
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Final, NamedTuple, Self, TypeAlias

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from miniqueue.errors import ConfigError, MiniqueueError
from miniqueue.spark.errors import JobFailedError
from miniqueue.spark.log_source import missing_topics
from miniqueue.spark.offsets import Offsets, ranges_between
from miniqueue.spark.progress import move_groups
from miniqueue.spark.source import configured_client

#: Shows a line to a person.
Say: TypeAlias = Callable[[str], None]

#: The error of the bridge to Java, which Spark does not always translate. Its package, part of pyspark, has no types.
Py4JError: Final[type[Exception]] = importlib.import_module("py4j.protocol").Py4JError
#: Interval between two reports of the progress of a batch, and between two checks of a stream.
PROGRESS_SECONDS = 2.0
WAIT_SECONDS = 1
#: The useful parts of Spark's long errors: the file that was read, and the last error of Python or miniqueue.
_FILE: Final = re.compile(r"(?:reading|footer for) file[: ]+(\S+?)\.?(?:\s|$)")
_IN_PYTHON: Final = "PYTHON_DATA_SOURCE_ERROR"
_SAID: Final = re.compile(r"^(?:\w+\.)*(\w+(?:Error|Exception)): (.+)$", re.MULTILINE)
_CAUSED: Final = re.compile(r"^Caused by: (?:[\w$]+\.)*(\w+): (.+)$", re.MULTILINE)


@contextmanager
def told_in_words() -> Iterator[None]:
    """Translate the exceptions of Spark to JobFailedError, or to ConfigError if the job itself is impossible."""
    try:
        yield
    except (AnalysisException, ParseException) as exc:
        raise _planned_wrong(str(exc)) from exc
    except (PySparkException, Py4JError) as exc:
        raise _failed(cause_of(str(exc))) from exc


def _planned_wrong(text: str) -> MiniqueueError:
    """Return the error of a plan: an invalid request, or an error of Python, such as a broker that is down."""
    if _IN_PYTHON not in text:
        return ConfigError([_first_line(text)])
    return _failed(cause_of(text))


def _failed(cause: str) -> MiniqueueError:
    """Return the error for a cause; a task can be the first to detect an invalid option."""
    kind, _, text = cause.partition(": ")
    return ConfigError([text]) if kind == ConfigError.__name__ else JobFailedError(cause)


@contextmanager
def having_set(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Change settings of a session, by name, for the plans that are made while the block runs."""
    before = {name: str(spark.conf.get(name)) for name in settings}
    try:
        for name, text in settings.items():
            spark.conf.set(name, text)
        yield
    finally:
        for name, text in before.items():
            spark.conf.set(name, text)


def observed(counts: Observation, frame: DataFrame) -> dict[str, int]:
    """Return the counts of a job that is done, by name; empty if the frame has no rows.

    If Spark's planner knows that a frame is empty, it removes the frame together with the observation.
    """
    try:
        by_name: dict[str, int] = counts.get
    except Py4JError:
        if not frame.isEmpty():
            raise
        return {}
    return by_name


def cause_of(text: str) -> str:
    """Return the file and the cause in the text of one of Spark's errors; its first line if it contains neither."""
    files, said = _FILE.findall(text), _SAID.findall(text)
    caused = _CAUSED.findall(text)
    kind, words = (said or caused or [("", _first_line(text))])[-1] if not files else (caused or said or [("", "")])[-1]
    cause = f"{kind}: {words.strip()}" if kind else words
    return f"{files[0]}: {cause}" if files else cause


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


@contextmanager
def progress(spark: SparkSession, job: str, say: Say) -> Iterator[None]:
    """Report every two seconds how many tasks are done, while the block runs."""
    done = threading.Event()
    thread = threading.Thread(target=_report, args=(spark, job, say, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _report(spark: SparkSession, job: str, say: Say, done: threading.Event) -> None:
    tracker = spark.sparkContext.statusTracker()
    began = monotonic()
    while not done.wait(PROGRESS_SECONDS):
        stages = [info for stage in tracker.getActiveStageIds() if (info := tracker.getStageInfo(stage)) is not None]
        finished, total = sum(info.numCompletedTasks for info in stages), sum(info.numTasks for info in stages)
        say(f"{job}: {task_progress(finished, total)}, {monotonic() - began:.0f} s")


def task_progress(finished: int, total: int) -> str:
    """Return the progress of a job as text; without tasks, Spark is planning, or between two stages."""
    return f"{finished} of {total} task{'' if total == 1 else 's'}" if total else "planning"


class Followed(NamedTuple):
    """The result of a stream: messages read, steps, and messages lost, which were deleted before they were read."""

    messages: int = 0
    steps: int = 0
    lost: int = 0

    def with_step(self, messages: int, lost: int) -> Self:
        """Return the result with one more step."""
        return self._replace(messages=self.messages + messages, steps=self.steps + 1, lost=self.lost + lost)


def followed(query: StreamingQuery, job: str, say: Say, begins: Offsets | None = None) -> Followed:
    """Wait until a stream of topics ends, and report its progress; return its result, without empty steps.

    Args:
      query: the stream.
      job: the name of the job, for the reports.
      say: called with each report.
      begins: the start of the first step, which Spark does not report; None: do not count lost messages.
    """
    done, last = Followed(), -1  # no list: it may run for years
    is_over = False
    while not is_over:
        is_over = bool(query.awaitTermination(WAIT_SECONDS))
        before = done
        for report in query.recentProgress:
            if report.batchId > last and any(step := _step(report, begins)):
                done, last = done.with_step(*step), report.batchId
        if done != before:
            lost = f", {done.lost} lost" if done.lost else ""
            messages, steps = ("" if count == 1 else "s" for count in (done.messages, done.steps))
            say(f"{job}: {done.messages} message{messages} in {done.steps} step{steps}{lost}")
    return done


def _step(report: StreamingQueryProgress, begins: Offsets | None) -> tuple[int, int]:
    """Return how many messages a step has read, and how many were deleted before."""
    if begins is None:
        return report.numInputRows, 0
    [source] = report.sources
    start, end = (json.loads(text or "null") for text in (source.startOffset, source.endOffset))
    wanted = ranges_between(begins if start is None else start, end or {}, restarts=True)
    return report.numInputRows, sum(part.size for part in wanted) - report.numInputRows


#: What is reported of a missing topic by jobs that run continuously.
WAITED_FOR: Final = "it is waited for"


def check_topics(spark: SparkSession, topics: Sequence[str], say: Say, *, otherwise: str = "") -> None:
    """Raise ConfigError if a topic does not exist; with `otherwise`, report that instead and continue."""
    with configured_client(spark) as client:
        problems = missing_topics(client, topics)
    if problems and not otherwise:
        raise ConfigError(problems)
    for problem in problems:
        say(f"{problem}; {otherwise}")


def bring_group(spark: SparkSession, group: str, query: StreamingQuery) -> None:
    """Move a group to the end of a stream that has ended, even if the stream read nothing.

    Spark reports to a source that a step is done when it plans the next step; after the last step it does not.
    """
    last = query.lastProgress
    if last is not None:
        [source] = last.sources
        with configured_client(spark) as client:
            move_groups(client, group, json.loads(source.endOffset or "null") or {})
