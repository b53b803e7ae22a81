"""`miniqueue tail`: prints the log of a topic, and what is published from now on, without consuming it.

With --backup, prints the same from a backup or an export, without a broker.
"""

import sys
from collections import deque
from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, Final

from miniqueue.commands.messages import log
from miniqueue.commands.messages.log import Lane
from miniqueue.commands.messages.span import lane_and_offset
from miniqueue.commands.messages.stopping import Stopping, stopping_on_signals
from miniqueue.commands.messages.writing import Write, message_writer, with_message_output
from miniqueue.commands.shell import flags
from miniqueue.commands.shell.connecting import BrokerClient, Choice, choosing, client_of
from miniqueue.commands.shell.outage import Outage
from miniqueue.commands.shell.texts import counted
from miniqueue.commands.shell.topic_names import TOPIC
from miniqueue.commands.shell.values import COUNT, FILE_OR_FOLDER, POSITIVE_DURATION, TIME, whole_number
from miniqueue.errors import ConfigError, ConnectError, DisconnectedError
from miniqueue_client import Message

_MAX_LAST: Final = 1_000_000


@flags.command(epilog="Examples: miniqueue tail orders · miniqueue tail orders --from-time -1h --to-time now -o jsonl")
@flags.argument("topic", type=TOPIC)
@flags.flag("-n", "--last", type=whole_number(0, _MAX_LAST), default=10, help="Begin with this many.  [default: 10]")
@flags.flag("--from-time", type=TIME, help="Begin with what was published from this time on.")
@flags.flag("--to-time", type=TIME, help="End with what was published before this time; do not follow.")
@flags.flag("--count", type=COUNT, help="End after this number of messages.")
@flags.flag("--no-follow", is_flag=True, help="End at the end of the log.")
@flags.flag("--interval", type=POSITIVE_DURATION, default=0.5, help="How often to look for more.  [default: 500ms]")
@flags.flag("--backup", type=FILE_OR_FOLDER, help="Read a backup or an export instead, without a broker.")
@with_message_output
@choosing
def command(choice: Choice, topic: str, form: str, null: bool, **options: Any) -> None:  # noqa: ANN401 - values of flags
    """Print the last messages of TOPIC, and then those that are published, without consuming or leasing any.

    Reads the log: acknowledged messages are in it as long as the topic retains them, and a message that was published
    with a delay is in it when it is due. Messages of different partitions are printed in the order of their times.
    """
    if options["from_time"] is not None and flags.is_on_command_line("last"):
        raise ConfigError(["flags --from-time and --last: only one can be used"])
    write = message_writer(form, null)
    if options["backup"] is not None:
        _print_backup(Path(options["backup"]), topic, write, options)
        return
    with client_of(choice, flags.shell().environ) as client:
        _print_log(client, topic, write, options)


def _print_backup(path: Path, topic: str, write: Write, options: dict[str, Any]) -> None:
    """Print the messages of a backup or an export."""
    from miniqueue.commands.stored.reading import stored_messages  # noqa: PLC0415 - imports LevelDB

    messages = stored_messages(path, topic, options["from_time"], options["to_time"])
    if options["from_time"] is None:
        messages = iter(deque(messages, maxlen=options["last"]))
    for message in islice(messages, options["count"]):
        write(message)


def _print_log(client: BrokerClient, topic: str, write: Write, options: dict[str, Any]) -> None:
    """Print the log of a topic, and what is published meanwhile."""
    from_time, to_time = options["from_time"], options["to_time"]
    with stopping_on_signals() as stopping:
        lanes = _lanes(client, topic, options["last"], from_time)
        if to_time is not None:
            log.end_at(client, topic, lanes, to_time)
        interval_seconds = None if options["no_follow"] or to_time is not None else options["interval"]
        for number, message in enumerate(_messages(client, topic, lanes, interval_seconds, stopping), 1):
            write(message)
            if stopping.is_asked or number == options["count"]:
                break
    stopping.raise_if_asked()


def _lanes(client: BrokerClient, topic: str, last: int, start: datetime | None) -> list[Lane]:
    """Return the lanes from a time on, or from the last messages of all lanes together on."""
    if start is not None:
        return log.lanes_from(client, topic, start)
    lanes = log.lanes_of_last(client, topic, last)
    ends = {lane.name: lane.end for lane in lanes}
    newest = deque(log.messages_in(client, topic, lanes, _ignore_missed), maxlen=last)
    firsts = dict(ends)
    for message in reversed(newest):
        lane, offset = lane_and_offset(message.id)
        firsts[lane] = offset
    return [Lane(name, firsts[name], ends[name]) for name in ends]


def _messages(
    client: BrokerClient, topic: str, lanes: list[Lane], interval_seconds: float | None, stopping: Stopping
) -> Iterator[Message]:
    """Yield the messages of lanes; then what is new, unless the interval is None. Waits for a broker that is away."""
    outage = Outage(_warn)
    yield from log.messages_in(client, topic, lanes, _warn_of_missed)
    while interval_seconds is not None and not stopping.is_asked:
        stopping.wait(interval_seconds)
        try:
            log.grow(client, topic, lanes)
            outage.end()
            yield from log.messages_in(client, topic, lanes, _warn_of_missed)
        except (ConnectError, DisconnectedError) as exc:
            outage.say(exc)


def _ignore_missed(_count: int) -> None:
    """Ignore that messages are no longer there."""


def _warn_of_missed(count: int) -> None:
    _warn(f"missed {counted(count, 'message')}; the broker deletes what its retention does not keep")


def _warn(text: str) -> None:
    print(f"miniqueue: {text}", file=sys.stderr, flush=True)
