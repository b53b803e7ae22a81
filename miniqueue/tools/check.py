"""`miniqueue check`: verifies every invariant of a store, and reports its content.

    report   a line for each topic ─ notes ─ a line for each problem ─ the counts
    exit     0 sound · 1 problems · 65, 71, 73, 78 the store could not be checked

The store is read through a view (`storage.leveldb.view`), so no byte of it changes.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from miniqueue.core.message.parts import whole_of
from miniqueue.core.settings.placing import WHOLE, Placing
from miniqueue.errors import ConfigError, CorruptionError
from miniqueue.server.config.config import naming_flag_of_store
from miniqueue.server.process.escaping import escape
from miniqueue.storage.leveldb.set_aside import SetAside
from miniqueue.storage.leveldb.shards import check_shards, shard_count, store_of_shard
from miniqueue.storage.leveldb.view import viewed
from miniqueue.tools import arguments
from miniqueue.tools.arguments import counted
from miniqueue.tools.audit.store import Audit
from miniqueue.tools.audit.topic import TopicAudit, TopicCounts

USAGE = """\
Usage: miniqueue check [-db directory]

Verifies every invariant of a store that no broker has open: checksums, keys, counters,
bitmaps, ranges. Changes nothing. Prints a line for each topic, then the problems, then
their number; of a store with shards, for one shard after the other.

  -db directory
        the store (default ./data)
  -config file
        TOML, JSON, or YAML file with settings

Exit codes: 0 the store is sound; 1 it has problems; 65 the directory is no store, or its
format is unsupported; 71 it cannot be read; 73 a broker has it open; 78 a flag is invalid.
"""

SOUND, UNSOUND = 0, 1


def run(words: Sequence[str], environ: Mapping[str, str]) -> int:
    """Check the store that `-db` names; return the exit code. Raises MiniqueueError."""
    options = arguments.read(words, environ, USAGE, settings=("db",))
    if options is None:
        return 0
    if options.words:
        raise ConfigError([f"unexpected argument: {options.words[0]!r}; the store is the directory of -db"])
    with naming_flag_of_store():
        problem_count = sum(_checked(options.config.db))
    return UNSOUND if problem_count else SOUND


def _checked(db: Path) -> Iterator[int]:
    """Check a store, and print the report; yield the number of problems, of each shard if it has shards."""
    count = shard_count(db)
    if not count:
        yield _check(db, WHOLE)
        return
    check_shards(db, count)
    for number in range(count):
        print(f"shard {number}:")
        yield _check(store_of_shard(db, number), Placing(number, count))


def _check(directory: Path, placing: Placing) -> int:
    audit, torn, doubt = audited(directory)
    for topic in audit.topics.values():
        if not placing.has(topic.name) and not topic.is_spread:
            audit.problems.add(f"topic {escape(topic.name)} belongs in shard {placing.shard_of(topic.name)}")
    for name in sorted(filter(placing.has, audit.transfers.topics)):
        audit.problems.add(f"topic {escape(name)} is in this shard, but messages are on their way to it")
    for line in report(audit, torn, doubt):
        print(line)
    return audit.problems.count


def audited(directory: Path) -> tuple[Audit, tuple[SetAside, ...], str | None]:
    """Check a store; return the audit, the torn tails that a startup would drop, and a doubt about completeness.

    Raises:
      StoreInUseError, NotAStoreError, FormatVersionError, StorageError: the store cannot be read; damage is a problem
        in the audit instead.
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
        audit.problems.add(f"{exc}; the rest of the store was not checked")
    else:
        audit.finish()
    return audit, torn, doubt


def report(audit: Audit, torn: Sequence[SetAside], doubt: str | None = None) -> Iterator[str]:
    """Yield the report, line by line."""
    wholes = _wholes(audit)
    for name, topics in wholes.items():
        yield _topic_line(name, [topic.counts() for topic in topics])
    yield from notes(torn, doubt)
    problems = audit.problems
    for problem in problems.kept:
        yield f"problem: {problem}"
    if problems.count > len(problems.kept):
        yield f"problem: and {problems.count - len(problems.kept)} more"
    yield _last_line(audit, len(wholes))


def _wholes(audit: Audit) -> dict[bytes, list[TopicAudit]]:
    """Return the topics by name: the parts of a spread topic that are here together, and not its settings alone."""
    wholes: dict[bytes, list[TopicAudit]] = {}
    for topic in audit.topics.values():
        if not topic.is_spread:
            wholes.setdefault(whole_of(topic.name), []).append(topic)
    return wholes


def notes(torn: Sequence[SetAside], doubt: str | None) -> Iterator[str]:
    """Yield what a startup would do to a store, or doubt, line by line."""
    for tail in torn:
        yield (
            f"note: {tail.file}: the last {tail.size_bytes} bytes, from offset {tail.offset} on, were torn in a "
            "crash; they were never acknowledged, and a startup drops them"
        )
    if doubt is not None:
        yield f"note: {doubt}"


def _last_line(audit: Audit, topic_count: int) -> str:
    topics, keys = counted(topic_count, "topic"), counted(audit.pair_count, "key")
    problems = counted(audit.problems.count, "problem") if audit.problems.count else "no problems"
    return f"{topics}, {keys}: {problems}"


def _topic_line(name: bytes, of_parts: Sequence[TopicCounts]) -> str:
    counts = TopicCounts(*map(sum, zip(*of_parts, strict=True)))
    return (
        f"topic {escape(name)}: {counted(counts.chunks, 'chunk')}, {counted(counts.messages, 'message')}, "
        f"{counts.waiting} waiting, {counts.delayed} delayed, {counts.returned} returned, "
        f"{counts.settled} settled but kept"
    )
