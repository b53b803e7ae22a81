"""`miniqueue check`: verifies every invariant of a store, and tells what it holds.

    report   a line for each topic ─ notes ─ a line for each problem ─ the counts
    exit     0 sound · 1 problems · 65, 71, 73, 78 it could not be checked

The store is read through a view (`storage.store_view`) and stays as it is, bit by bit.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from miniqueue.errors import ConfigError, CorruptionError
from miniqueue.server.config import Question
from miniqueue.server.escaping import escape
from miniqueue.storage.set_aside import SetAside
from miniqueue.storage.store_view import viewed
from miniqueue.tools import arguments
from miniqueue.tools.audit import Audit
from miniqueue.tools.counted import counted
from miniqueue.tools.topic_audit import TopicAudit

USAGE = """\
Usage: miniqueue check [-db directory]

Verifies every invariant of a store that no broker has open: checksums, keys, counters,
bitmaps, ranges. Changes nothing. Prints a line for each topic, then the problems, then
their number.

  -db directory
        the store (default ./data)
  -config file
        TOML file with settings

Exit codes: 0 the store is sound; 1 it has problems; 65 it is no store, or one of another
format; 71 it cannot be read; 73 a broker has it open; 78 a flag is wrong.
"""

SOUND, UNSOUND = 0, 1


def run(words: Sequence[str], environ: Mapping[str, str]) -> int:
    """Check the store that `-db` names; return the exit code. Raises MiniqueueError."""
    given = arguments.read(words, environ, settings=("db",))
    if given is Question.HELP:
        sys.stdout.write(USAGE)
        return 0
    assert isinstance(given, arguments.Arguments)
    if given.words:
        raise ConfigError([f"check takes no {given.words[0]!r}; the store is what -db names"])
    audit, torn, doubt = audited(given.config.db)
    for line in report(audit, torn, doubt):
        print(line)
    return UNSOUND if audit.problems.count else SOUND


def audited(directory: Path) -> tuple[Audit, tuple[SetAside, ...], str | None]:
    """Walk through a store; return what was found, the tail that a start would drop, and what it could not check.

    Raises:
      StoreInUseError, NotAStoreError, FormatVersionError, StorageError: it could not be walked through; damage is
        a problem of the audit instead.
    """
    audit = Audit()
    torn: tuple[SetAside, ...] = ()
    doubt: str | None = None
    try:
        with viewed(directory) as view:
            torn, doubt = view.set_aside, view.doubt
            for key, value in view.pairs():
                audit.take(key, value)
    except CorruptionError as exc:
        audit.problems.add(f"{exc}; what comes behind it was not checked")
    else:
        audit.finish()
    return audit, torn, doubt


def report(audit: Audit, torn: Sequence[SetAside], doubt: str | None = None) -> Iterator[str]:
    """Yield the report, line by line."""
    for topic in audit.topics.values():
        yield _topic_line(topic)
    for tail in torn:
        yield (
            f"note: {tail.file}: the last {tail.size_bytes} bytes, from offset {tail.offset} on, were torn in a "
            "crash; they were never acknowledged, and a start drops them"
        )
    if doubt is not None:
        yield f"note: {doubt}"
    problems = audit.problems
    for problem in problems.kept:
        yield f"problem: {problem}"
    if problems.count > len(problems.kept):
        yield f"problem: and {problems.count - len(problems.kept)} more"
    yield _last_line(audit)


def _last_line(audit: Audit) -> str:
    topics, keys = counted(len(audit.topics), "topic"), counted(audit.pair_count, "key")
    problems = counted(audit.problems.count, "problem") if audit.problems.count else "no problems"
    return f"{topics}, {keys}: {problems}"


def _topic_line(topic: TopicAudit) -> str:
    counts = topic.counts()
    return (
        f"topic {escape(topic.name)}: {counted(counts.chunks, 'chunk')}, {counted(counts.messages, 'message')}, "
        f"{counts.waiting} waiting, {counts.delayed} delayed, {counts.returned} returned, "
        f"{counts.settled} settled but kept"
    )
