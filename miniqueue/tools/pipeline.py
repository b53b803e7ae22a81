"""`miniqueue pipeline`: jobs of Spark between files and topics, here or, started by spark-submit, on a cluster.

Spark is an extra. So what needs it is imported when a job is to run, and not before.
"""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC
from types import MappingProxyType
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from miniqueue.errors import ConfigError
from miniqueue.server.config import Question
from miniqueue.server.escaping import escape
from miniqueue.tools import arguments, spark_needs
from miniqueue.tools.arguments import Arguments
from miniqueue.tools.counted import counted
from miniqueue.tools.spark_session import interruptible_session

if TYPE_CHECKING:
    from miniqueue.spark.jobs.figures import Figures

USAGE = """\
Usage: miniqueue pipeline load -topic topic [flags] path ...
       miniqueue pipeline archive -topic topics [flags] directory
       miniqueue pipeline replay -topic topic [flags] directory
       miniqueue pipeline stats -topic topics [flags] [directory]

Jobs of Spark. load publishes each row of Parquet, CSV or JSON lines as JSON. archive writes
a topic as Parquet, in a directory for each day; each run goes on where the last one ended.
replay publishes what an archive has. stats counts by windows of time, to the standard
output or to Parquet. Progress goes to the standard error output.

  -topic topic
        where messages go to, or come from; then topics may have commas between them
  -url url
        the broker (default redis://localhost:6379)
  -user name, -secret-file file, -ca-file file
        who the job is, where the broker has users, and whom to trust with rediss://
  -master url
        where Spark runs (default local[2]); with spark-submit it is what that says
load:
  -format parquet|csv|json
        of the files (default: by the ending of the first)
  -schema columns
        names and types as SQL has them: 'id long, name string' (default: what the files say)
  -key column
        the column that becomes the key
  -columns names
        those that become the message, with commas between them (default: all)
  -headers pairs
        columns that become headers, as in 'country=land,kind=type'
  -max-message-bytes count
        rows that would be longer messages are bad (default 1048576)
  -quarantine directory
        bad rows go to a directory in it (default ./quarantine)
archive:
  -group name
        a group of the topic that goes along, so that what is archived can go
  -fail-on-data-loss true|false
        whether to break off where messages are gone before they are archived; else they are
        counted as lost (default true)
archive and stats:
  -every seconds
        write what is new so often, until stopped, and wait for a broker that does not answer
        yet (default: what there is now, and end)
  -checkpoint directory
        where the job keeps its place (default: _checkpoint in the directory)
stats:
  -window seconds
        how long a window is (default 60)
  -late seconds
        how long a window may still get messages, with -every (default 60)
  -dead-letters topics
        where dead letters are (default: the topics' names and .dlq)
replay:
  -from time, -until time
        what was published from then on, and before: ISO 8601, or ms since 1970
load and replay:
  -run-id id
        of a job that broke off: what it has published is not published again

Exit codes: 0 done, or stopped with -every; 1 likewise, but for rows that are bad or messages
that are lost; 69 the job broke off, the text says where, or no broker answers; 78 a flag or a
column is wrong, or Spark is missing; 130 interrupted.
"""

DONE, NOT_ALL = 0, 1
_COMMON: Final = ("topic", "url", "user", "secret-file", "ca-file", "master")
_OF_JOBS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "load": ("format", "schema", "key", "columns", "headers", "max-message-bytes", "quarantine", "run-id"),
        "archive": ("every", "group", "checkpoint", "fail-on-data-loss"),
        "stats": ("every", "checkpoint", "window", "late", "dead-letters"),
        "replay": ("from", "until", "run-id"),
    }
)
#: How many paths stand behind the flags, at least and at most.
_PATHS_OF_JOBS: Final[Mapping[str, tuple[int, float]]] = MappingProxyType(
    {"load": (1, float("inf")), "archive": (1, 1), "stats": (0, 1), "replay": (1, 1)}
)

#: Jobs that publish.
_WRITERS: Final = ("load", "replay")

#: What becomes of a job that is interrupted.
_INTERRUPTED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "load": "with the run id above it publishes what is not there yet",
        "archive": "the same command goes on where it was",
        "stats": "run it again for its figures",
        "replay": "with the run id above it publishes what is not there yet",
    }
)


def run(words: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run a job; return the exit code. Raises MiniqueueError."""
    job = words[0] if words else ""
    if job not in _OF_JOBS:
        if job in ("-h", "-help", "--help"):
            sys.stdout.write(USAGE)
            return DONE
        raise ConfigError([f"a job is one of {', '.join(_OF_JOBS)}; see miniqueue pipeline -h"])
    given = arguments.read(words[1:], environ, settings=(), own=(*_COMMON, *_OF_JOBS[job]))
    if isinstance(given, Question):
        sys.stdout.write(USAGE)
        return DONE
    _check(given, job)
    try:
        return _JOBS[job](given, environ)
    except KeyboardInterrupt:
        _say(f"interrupted; {_INTERRUPTED[job]}")
        raise


def _check(given: Arguments, job: str) -> None:
    least, most = _PATHS_OF_JOBS[job]
    problems = _problems_of_topic(given.flags.get("topic", ""), job)
    if not all(given.words):
        problems.append("a path behind the flags is empty")
    if not least <= len(given.words) <= most:
        problems.append("there must be one directory" if given.words else "there must be a path behind the flags")
    problems += spark_needs.missing(os.environ)
    if problems:
        raise ConfigError(problems)


def _problems_of_topic(text: str, job: str) -> list[str]:
    if not text:
        return ["flag -topic is missing"]
    if not _listed(text):
        return [f"flag -topic: there is no topic in {text!r}"]
    if "," in text and job in _WRITERS:
        return [f"flag -topic: {job} publishes to one topic, and {text!r} means several, as commas do"]
    return []


def _load(given: Arguments, environ: Mapping[str, str]) -> int:
    from miniqueue.spark.jobs import inputs, load, mapping  # noqa: PLC0415 - needs the extra

    flags = given.flags
    format_name = flags.get("format") or inputs.format_of(given.words[0])
    if format_name not in inputs.FORMATS:
        raise ConfigError([f"flag -format: one of {', '.join(inputs.FORMATS)}"])
    columns = mapping.ColumnMapping(
        flags.get("key", ""),
        _listed(flags.get("columns", "")),
        _headers(flags.get("headers", "")),
        _number(flags, "max-message-bytes", mapping.MAX_MESSAGE_BYTES, least=1),
    )
    run_id, quarantine = _run_id(flags), flags.get("quarantine") or "quarantine"
    job = load.Load(flags["topic"], given.words, format_name, run_id, quarantine, flags.get("schema", ""), columns)
    _say(f"run id {run_id}")
    with interruptible_session(flags, environ, _say) as spark:
        done = load.load(spark, job, _say)
    for example in done.examples:
        _say(example)
    aside = f", {counted(done.bad, 'bad row')} in {done.set_aside_in}" if done.bad else ""
    print(f"{job.topic}: {counted(done.published, 'message')} published{aside}")
    return NOT_ALL if done.bad else DONE


def _archive(given: Arguments, environ: Mapping[str, str]) -> int:
    from miniqueue.spark.jobs import archive  # noqa: PLC0415 - needs the extra

    flags = given.flags
    every_seconds = _number(flags, "every", 0)
    job = archive.Archive(
        flags["topic"],
        given.words[0],
        flags.get("checkpoint", ""),
        flags.get("group", ""),
        every_seconds,
        fail_on_data_loss=_switch(flags, "fail-on-data-loss", default=True),
    )
    with interruptible_session(flags, environ, _say, runs_until_stopped=every_seconds > 0) as spark:
        done = archive.archive(spark, job, _say)
    lost = f", {counted(done.lost, 'message')} lost" if done.lost else ""
    print(f"{job.topic}: {counted(done.messages, 'message')} archived in {counted(done.steps, 'step')}{lost}")
    return NOT_ALL if done.lost else DONE


def _replay(given: Arguments, environ: Mapping[str, str]) -> int:
    from miniqueue.spark import offsets  # noqa: PLC0415 - needs the extra
    from miniqueue.spark.jobs import replay  # noqa: PLC0415 - needs the extra

    flags = given.flags
    since, until = (offsets.parse_time(flags[name]) if flags.get(name) else None for name in ("from", "until"))
    run_id = _run_id(flags)
    _say(f"run id {run_id}")
    job = replay.Replay(flags["topic"], given.words[0], run_id, since, until)
    with interruptible_session(flags, environ, _say) as spark:
        count = replay.replay(spark, job, _say)
    print(f"{job.topic}: {counted(count, 'message')} published")
    return DONE


def _stats(given: Arguments, environ: Mapping[str, str]) -> int:
    from miniqueue.spark.jobs import stats  # noqa: PLC0415 - needs the extra

    flags = given.flags
    job = stats.Stats(
        flags["topic"],
        given.words[0] if given.words else "",
        _number(flags, "window", 60, least=1),
        _number(flags, "every", 0),
        _number(flags, "late", 60),
        flags.get("checkpoint", ""),
        flags.get("dead-letters", ""),
    )
    with interruptible_session(flags, environ, _say, runs_until_stopped=job.every_seconds > 0) as spark:
        rows = stats.stats(spark, job, _nothing if job.directory else _show, _say)
    print(f"{job.topics}: {counted(rows, 'row')}{f' in {job.directory}' if job.directory else ''}")
    return DONE


def _show(row: "Figures") -> None:
    begins = row.window_start.astimezone(UTC)
    waited = f", p50 {row.p50_ms} ms, p99 {row.p99_ms} ms (of {row.measured})" if row.measured else ""
    what = f"{row.event}: {escape(row.reason)}" if row.reason else row.event
    figures = f"{counted(row.messages, 'message')}, {row.per_second:.2f}/s, {counted(row.bytes, 'byte')}{waited}"
    print(f"{begins:%Y-%m-%dT%H:%M:%SZ} {row.topic} {what}: {figures}", flush=True)


def _nothing(_row: "Figures") -> None:
    """Show nothing: it is in files."""


_JOBS: Final[Mapping[str, Callable[[Arguments, Mapping[str, str]], int]]] = MappingProxyType(
    {"load": _load, "archive": _archive, "replay": _replay, "stats": _stats}
)


def _number(flags: Mapping[str, str], name: str, default: int, *, least: int = 0) -> int:
    text = flags.get(name, str(default))
    if not text.isdecimal() or len(text) > 9:
        raise ConfigError([f"flag -{name}: a whole number is needed, not {text!r}"])
    if int(text) < least:
        raise ConfigError([f"flag -{name}: it is {least} or more, not {text}"])
    return int(text)


def _switch(flags: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = flags.get(name, str(default)).lower()
    if text not in ("true", "false"):
        raise ConfigError([f"flag -{name}: true or false, not {flags[name]!r}"])
    return text == "true"


def _run_id(flags: Mapping[str, str]) -> str:
    """Return the id of a run, which is also the name of a directory that is overwritten, and no pattern of files."""
    run_id = flags.get("run-id") or uuid4().hex
    if run_id[0] in "._" or not run_id.isprintable() or set(run_id) & set("/\\*?[]{}"):
        raise ConfigError([f"flag -run-id: it is the name of a directory, too, so it cannot be {run_id!r}"])
    return run_id


def _listed(text: str) -> tuple[str, ...]:
    return tuple(word for one in text.split(",") if (word := one.strip()))


def _headers(text: str) -> list[tuple[str, str]]:
    pairs = [word.partition("=") for word in _listed(text)]
    if wrong := [name for name, equals, column in pairs if not (name and equals and column)]:
        raise ConfigError([f"flag -headers: as in 'country=land,kind=type', not {wrong[0]!r}"])
    return [(name, column) for name, _, column in pairs]


def _say(line: str) -> None:
    print(f"miniqueue: {line}", file=sys.stderr)
