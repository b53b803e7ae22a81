"""`miniqueue copy`: copies topics from one broker to another, once or continuously, each message exactly once."""

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final

from miniqueue.commands.copying.copying import Choices, Copying, passes
from miniqueue.commands.copying.once import Patience, copy_once
from miniqueue.commands.copying.sides import Side
from miniqueue.commands.shell import flags
from miniqueue.commands.shell.columns import Column
from miniqueue.commands.shell.connecting import Choice, address_of
from miniqueue.commands.shell.contexts import Context
from miniqueue.commands.shell.outage import Outage
from miniqueue.commands.shell.output import Output, with_output
from miniqueue.commands.shell.progress import progress
from miniqueue.commands.shell.values import NAME, POSITIVE_DURATION, START, TEXT
from miniqueue.errors import ConfigError
from miniqueue.server.process.escaping import escape
from miniqueue_client import Client, ClientError

_COLUMNS: Final = (
    Column("topic", "topic"),
    Column("copied", "copied", is_number=True),
    Column("lag", "lag", is_number=True),
    Column("expired", "expired", is_number=True),
    Column("missed", "missed", is_number=True),
)
#: How often to look for messages that arrive, and for topics that match a pattern.
_POLL_SECONDS: Final = 0.2
_REFRESH_SECONDS: Final = 5.0
#: Longest pause before another attempt after an error that passes.
_MAX_PAUSE_SECONDS: Final = 5.0
#: Exit code if the source deleted messages before they were copied.
_INCOMPLETE: Final = 1


@flags.command(epilog="Example: miniqueue copy --from old --to new --pattern 'orders.*' --follow")
@flags.argument("topics", nargs=-1)
@flags.flag("--from", "source", required=True, type=NAME, help="Context or address of the broker to copy from.")
@flags.flag("--to", "target", required=True, type=NAME, help="Context or address of the broker to copy to.")
@flags.flag("--pattern", "patterns", multiple=True, type=NAME, help="Copy topics whose names match; * is any text.")
@flags.flag("--follow", is_flag=True, help="Continue with messages that arrive, and wait for brokers, until Ctrl-C.")
@flags.flag("--name", default="copy", show_default=True, type=NAME, help="Name of the copy, and of its group.")
@flags.flag("--start", default="earliest", show_default=True, type=START, help="Where to begin: as of a new group.")
@flags.flag("--start-of-group", default="", type=TEXT, help="Begin where a group of the source is.")
@flags.flag("--no-create", is_flag=True, help="Give topics that the target does not have its defaults.")
@flags.flag(
    "--interval", type=POSITIVE_DURATION, default=10.0, help="Time between two reports of --follow.  [default: 10s]"
)
@with_output
def command(topics: tuple[str, ...], source: str, target: str, output: Output, **others: Any) -> int:  # noqa: ANN401 - values of flags
    """Copy TOPICS from one broker to another, with keys, headers, priorities, and times to live.

    Every message is copied exactly once, also if a broker or the copy is killed: run the same command again to
    continue. Nothing is leased at the source; until it is copied, a message is kept there by a group.
    """
    if not topics and not others["patterns"]:
        raise ConfigError(["missing topics; name some, or use --pattern; see -h"])
    choices = Choices(
        topics,
        others["patterns"],
        others["name"],
        others["start"],
        others["start_of_group"],
        creates=not others["no_create"],
    )
    with _client_of("--from", source) as origin, _client_of("--to", target) as destination:
        if str(origin.address) == str(destination.address):
            raise ConfigError(["flags --from and --to: both name the same broker"])
        copying = Copying(origin, destination, choices, lambda: time.time_ns() // 1_000_000, time.monotonic)
        if others["follow"]:
            _follow(copying, output, others["interval"])
        copy_once(copying, partial(progress, "copying"), Patience(Outage(_warn, "trying again"), time.sleep))
        output.rows(_COLUMNS, _rows(copying))
        return _INCOMPLETE if any(copy.missed_count for copy in copying.copies.values()) else 0


def _client_of(flag: str, name: str) -> Client:
    choice = Choice(broker=Context(name)) if "://" in name else Choice(context=name)
    try:
        return Side.of(address_of(choice, flags.shell().environ))
    except ConfigError as exc:
        raise ConfigError([f"flag {flag}: {problem}" for problem in exc.problems]) from exc


def _follow(copying: Copying, output: Output, interval_seconds: float) -> None:
    """Copy until a signal ends it; wait if a broker does not answer, or refuses for now."""
    report_at = time.monotonic() + interval_seconds
    refresh_at, pause_seconds = 0.0, _POLL_SECONDS
    outage = Outage(_warn, "trying again")
    try:
        while True:
            try:
                if time.monotonic() >= refresh_at:
                    copying.refresh()
                    refresh_at = time.monotonic() + _REFRESH_SECONDS
                count, pause_seconds = copying.round(), _POLL_SECONDS
                outage.end()
            except ClientError as exc:
                if not passes(exc):
                    raise
                outage.say(exc)
                count, pause_seconds = 0, min(pause_seconds * 2, _MAX_PAUSE_SECONDS)
            if time.monotonic() >= report_at:
                _report(copying, output)
                report_at = time.monotonic() + interval_seconds
            if not count:
                time.sleep(pause_seconds)
    except KeyboardInterrupt:
        with suppress(ClientError):  # the next copy does it
            copying.release()
        _report(copying, output)
        raise


def _warn(text: str) -> None:
    print(f"miniqueue: {escape(text)}", file=sys.stderr, flush=True)


def _report(copying: Copying, output: Output) -> None:
    if output.form == "table":
        at = time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime())
        output.write(f"{at}  copied {copying.copied_count}  lag {copying.lag}\n")
    else:
        for row in _rows(copying):
            output.done("", row)


def _rows(copying: Copying) -> Iterator[Mapping[str, Any]]:
    for topic, copy in sorted(copying.copies.items()):
        yield {
            "topic": topic,
            "copied": copy.copied_count,
            "lag": copy.lag,
            "expired": copy.expired_count,
            "missed": copy.missed_count,
        }
