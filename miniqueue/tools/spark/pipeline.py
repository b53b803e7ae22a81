"""`miniqueue pipeline`: Spark jobs between files and topics, in this process or, with spark-submit, on a cluster.

Spark is an extra, so modules that require it are imported only when a job runs.
"""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC
from types import MappingProxyType
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from miniqueue.errors import ConfigError
from miniqueue.server.process.escaping import escape
from miniqueue.tools import arguments
from miniqueue.tools.arguments import Arguments, counted
from miniqueue.tools.spark import needs
from miniqueue.tools.spark.session import interruptible_session

if TYPE_CHECKING:
    from miniqueue.spark.jobs.figures import Figures

USAGE = """\
Usage: miniqueue pipeline load -topic topic [flags] path ...
       miniqueue pipeline archive -topic topics [flags] directory
       miniqueue pipeline replay -topic topic [flags] directory
       miniqueue pipeline stats -topic topics [flags] [directory]

Runs a Spark job. load publishes each row of Parquet, CSV, or JSON lines as JSON. archive
writes a topic to Parquet, in a directory for each day; each run continues after the previous
run. replay publishes the messages of an archive. stats counts messages by time window, to
the standard output or to Parquet. Progress is written to the standard error output.

  -topic topic
        the topic to publish to, or the topics to read, separated by commas
  -url url
        the broker (default redis://localhost:6379)
  -user name, -secret-file file, -ca-file file
        user and secret of the job, if the broker has users; authorities to trust with
        rediss://
  -master url
        where Spark runs (default local[2]); spark-submit overrides it
load:
  -format parquet|csv|json
        format of the files (default: from the extension of the first file)
  -schema columns
        SQL names and types, as in 'id long, name string' (default: the schema of the files)
  -key column
        column that contains the key
  -columns names
        columns that the message contains, separated by commas (default: all)
  -headers pairs
        headers and their columns, as in 'country=land,kind=type'
  -max-message-bytes count
        maximum size of a message; a row that exceeds it is bad (default 1048576)
  -quarantine directory
        bad rows are written to a directory in it (default ./quarantine)
archive:
  -group name
        a group of the topic that advances with the job, so that archived messages can be
        deleted
  -fail-on-data-loss true|false
        whether to abort if messages were deleted before they were archived; otherwise they
        are counted as lost (default true)
archive and stats:
  -every seconds
        write new messages at this interval until stopped, and wait for a broker that does
        not answer yet (default: write the existing messages and exit)
  -checkpoint directory
        where the job stores its position (default: _checkpoint in the directory)
stats:
  -window seconds
        length of a window (default 60)
  -late seconds
        how long a window accepts late messages, with -every (default 60)
  -dead-letters topics
        topics of the dead letters (default: the names of the topics followed by .dlq)
replay:
  -from time, -until time
        replay messages published in this period: ISO 8601, or ms since 1970
load and replay:
  -run-id id
        run id of an aborted job, whose messages are not published again

Exit codes: 0 done, or stopped with -every; 1 done, but rows are bad or messages are lost; 69
the job was aborted, the error says where, or no broker answers; 78 a flag or a column is
invalid, or Spark is missing; 130 interrupted.
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
#: The minimum and maximum number of paths after the flags.
_PATHS_OF_JOBS: Final[Mapping[str, tuple[int, float]]] = MappingProxyType(
    {"load": (1, float("inf")), "archive": (1, 1), "stats": (0, 1), "replay": (1, 1)}
)

#: The jobs that publish.
_WRITERS: Final = ("load", "replay")

#: How to continue a job that was interrupted.
_INTERRUPTED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "load": "pass the run id above to publish the rest",
        "archive": "the same command continues after the last step",
        "stats": "run it again for its statistics",
        "replay": "pass the run id above to publish the rest",
    }
)


def run(words: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run a job; return the exit code. Raises MiniqueueError."""
    job = words[0] if words else ""
    if job not in _OF_JOBS:
        if job in ("-h", "-help", "--help"):
            sys.stdout.write(USAGE)
            return DONE
        raise ConfigError([f"unknown job: {job!r}; must be {', '.join(_OF_JOBS)}; see miniqueue pipeline -h"])
    options = arguments.read(words[1:], environ, USAGE, settings=(), own=(*_COMMON, *_OF_JOBS[job]))
    if options is None:
        return DONE
    _check(options, job)
    try:
        return _JOBS[job](options, environ)
    except KeyboardInterrupt:
        _say(f"interrupted; {_INTERRUPTED[job]}")
        raise


def _check(options: Arguments, job: str) -> None:
    least, most = _PATHS_OF_JOBS[job]
    problems = _problems_of_topic(options.flags.get("topic", ""), job)
    if not all(options.words):
        problems.append("a path after the flags is empty")
    if not least <= len(options.words) <= most:
        problems.append("too many paths; must be one directory" if options.words else "no path after the flags")
    problems += needs.missing(os.environ)
    if problems:
        raise ConfigError(problems)


def _problems_of_topic(text: str, job: str) -> list[str]:
    if not text:
        return ["flag -topic is missing"]
    if not _listed(text):
        return [f"flag -topic: no topic in {text!r}"]
    if "," in text and job in _WRITERS:
        return [f"flag -topic: {job} publishes to one topic; commas in {text!r} separate several"]
    return []


def _load(options: Arguments, environ: Mapping[str, str]) -> int:
    from miniqueue.spark.jobs import load  # noqa: PLC0415 - needs the extra
    from miniqueue.spark.jobs.files import inputs, mapping  # noqa: PLC0415 - needs the extra

    flags = options.flags
    format_name = flags.get("format") or inputs.format_of(options.words[0])
    if format_name not in inputs.FORMATS:
        raise ConfigError([f"flag -format: unknown format; must be {', '.join(inputs.FORMATS)}"])
    columns = mapping.ColumnMapping(
        flags.get("key", ""),
        _listed(flags.get("columns", "")),
        _headers(flags.get("headers", "")),
        _number(flags, "max-message-bytes", mapping.MAX_MESSAGE_BYTES, least=1),
    )
    run_id, quarantine = _run_id(flags), flags.get("quarantine") or "quarantine"
    job = load.Load(flags["topic"], options.words, format_name, run_id, quarantine, flags.get("schema", ""), columns)
    _say(f"run id {run_id}")
    with interruptible_session(flags, environ, _say) as spark:
        done = load.load(spark, job, _say)
    for example in done.examples:
        _say(example)
    aside = f", {counted(done.bad, 'bad row')} in {done.set_aside_in}" if done.bad else ""
    print(f"{job.topic}: {counted(done.published, 'message')} published{aside}")
    return NOT_ALL if done.bad else DONE


def _archive(options: Arguments, environ: Mapping[str, str]) -> int:
    from miniqueue.spark.jobs import archive  # noqa: PLC0415 - needs the extra

    flags = options.flags
    every_seconds = _number(flags, "every", 0)
    job = archive.Archive(
        flags["topic"],
        options.words[0],
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


def _replay(options: Arguments, environ: Mapping[str, str]) -> int:
    from miniqueue.spark import offsets  # noqa: PLC0415 - needs the extra
    from miniqueue.spark.jobs import replay  # noqa: PLC0415 - needs the extra

    flags = options.flags
    since, until = (offsets.parse_time(flags[name]) if flags.get(name) else None for name in ("from", "until"))
    run_id = _run_id(flags)
    _say(f"run id {run_id}")
    job = replay.Replay(flags["topic"], options.words[0], run_id, since, until)
    with interruptible_session(flags, environ, _say) as spark:
        count = replay.replay(spark, job, _say)
    print(f"{job.topic}: {counted(count, 'message')} published")
    return DONE


def _stats(options: Arguments, environ: Mapping[str, str]) -> int:
    from miniqueue.spark.jobs import stats  # noqa: PLC0415 - needs the extra

    flags = options.flags
    job = stats.Stats(
        flags["topic"],
        options.words[0] if options.words else "",
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
    event = f"{row.event}: {escape(row.reason)}" if row.reason else row.event
    statistics = f"{counted(row.messages, 'message')}, {row.per_second:.2f}/s, {counted(row.bytes, 'byte')}{waited}"
    print(f"{begins:%Y-%m-%dT%H:%M:%SZ} {row.topic} {event}: {statistics}", flush=True)


def _nothing(_row: "Figures") -> None:
    """Ignore a row: the job writes it to files."""


_JOBS: Final[Mapping[str, Callable[[Arguments, Mapping[str, str]], int]]] = MappingProxyType(
    {"load": _load, "archive": _archive, "replay": _replay, "stats": _stats}
)


def _number(flags: Mapping[str, str], name: str, default: int, *, least: int = 0) -> int:
    text = flags.get(name, str(default))
    if not text.isdecimal() or len(text) > 9:
        raise ConfigError([f"flag -{name}: invalid number: {text!r}; must be a whole number"])
    if int(text) < least:
        raise ConfigError([f"flag -{name}: invalid number: {text}; must be at least {least}"])
    return int(text)


def _switch(flags: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = flags.get(name, str(default)).lower()
    if text not in ("true", "false"):
        raise ConfigError([f"flag -{name}: invalid value: {flags[name]!r}; must be true or false"])
    return text == "true"


def _run_id(flags: Mapping[str, str]) -> str:
    """Return the run id; it is also the name of a directory that is overwritten, so it must not be a file pattern."""
    run_id = flags.get("run-id") or uuid4().hex
    if run_id[0] in "._" or not run_id.isprintable() or set(run_id) & set("/\\*?[]{}"):
        raise ConfigError([f"flag -run-id: invalid run id: {run_id!r}; must be usable as the name of a directory"])
    return run_id


def _listed(text: str) -> tuple[str, ...]:
    return tuple(word for part in text.split(",") if (word := part.strip()))


def _headers(text: str) -> list[tuple[str, str]]:
    pairs = [word.partition("=") for word in _listed(text)]
    if invalid := [name for name, equals, column in pairs if not (name and equals and column)]:
        raise ConfigError([f"flag -headers: invalid header: {invalid[0]!r}; must be as in 'country=land,kind=type'"])
    return [(name, column) for name, _, column in pairs]


def _say(line: str) -> None:
    print(f"miniqueue: {line}", file=sys.stderr)
