"""`miniqueue schedule`: sets, lists, fires, and deletes schedules, which publish a message repeatedly."""

import sys
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from miniqueue.commands.shell import asking, flags
from miniqueue.commands.shell.columns import Column
from miniqueue.commands.shell.connecting import BrokerClient, connected
from miniqueue.commands.shell.output import Output, with_output
from miniqueue.commands.shell.texts import shown_duration, shown_headers, shown_time
from miniqueue.commands.shell.topic_names import TOPIC
from miniqueue.commands.shell.values import HEADER, NAME, PAYLOAD, POSITIVE_DURATION, TIME, Choice
from miniqueue.errors import ConfigError
from miniqueue.server.process.escaping import escape, quote
from miniqueue.wire.json_bytes import bytes_value, payload_member
from miniqueue_client import Schedule

_PAGE: Final = 1000


def _shown_time(at_ms: int | None) -> str:
    return shown_time(at_ms or 0)


_SHOWS: Final[Mapping[str, Callable[[Any], str]]] = MappingProxyType(
    {
        "next_at_ms": _shown_time,
        "until_ms": _shown_time,
        "every_seconds": shown_duration,
        "ttl_seconds": shown_duration,
        "headers": shown_headers,
    }
)


def _rule(row: dict[str, Any]) -> str:
    if "cron" not in row:
        return f"every {shown_duration(row['every_seconds'])}"
    return escape(f"{row['cron']} {row.get('zone', 'UTC')}")


_COLUMNS: Final = (
    Column("schedule", "name"),
    Column("topic", "topic"),
    Column("when", "", _rule),
    Column("next", "next_at_ms", _SHOWS["next_at_ms"]),
    Column("missed", "missed"),
)


@flags.group()
def command() -> None:
    """Set, list, fire, and delete schedules, each of which publishes a message repeatedly."""


@command.command()
@with_output
@connected
def ls(client: BrokerClient, output: Output) -> None:
    """List the schedules."""
    output.rows(_COLUMNS, map(_members, _schedules(client)), empty="There are no schedules.")


@command.command()
@flags.argument("name", type=NAME)
@with_output
@connected
def show(client: BrokerClient, name: str, output: Output) -> None:
    """Show the schedule NAME, with its message."""
    output.record(_members(client.find_schedule(name)), _SHOWS)


@command.command(
    name="set",
    epilog="Examples: miniqueue schedule set nightly reports 'run' --cron '0 3 * * *' --zone Europe/Berlin · "
    "miniqueue schedule set tick pings --every 30s < ping.json",
)
@flags.argument("name", type=NAME)
@flags.argument("topic", type=TOPIC)
@flags.argument("payload", type=PAYLOAD, required=False)
@flags.flag("--cron", help="Times, as in '0 9 * * MON-FRI'.")
@flags.flag("--zone", help="Time zone of --cron, such as Europe/Berlin.  [default: UTC]")
@flags.flag("--every", "every_seconds", type=POSITIVE_DURATION, help="Interval, instead of --cron.")
@flags.flag("--missed", type=Choice(["all", "one", "none"]), help="Which to publish after a downtime.  [default: all]")
@flags.flag("--until", type=TIME, help="End: the schedule is deleted after its last message before this time.")
@flags.flag("--key", type=PAYLOAD, help="Key of each message.")
@flags.flag("--header", "headers", type=HEADER, multiple=True, help="Header of each message; can be repeated.")
@flags.flag("--ttl", "ttl_seconds", type=POSITIVE_DURATION, help="Time to live of each message.")
@flags.flag("--priority", type=Choice(["high", "normal", "low"]), help="Priority of each message.")
@with_output
@connected
def set_schedule(
    client: BrokerClient,
    name: str,
    topic: str,
    payload: bytes | None,
    output: Output,
    **options: Any,  # noqa: ANN401 - values of flags
) -> None:
    """Publish PAYLOAD, or standard input, to TOPIC repeatedly; replace the schedule NAME if it exists."""
    if (options["cron"] is None) == (options["every_seconds"] is None):
        raise ConfigError(["set either --cron or --every"])
    if payload is None:
        if sys.stdin.isatty():
            raise ConfigError(["missing argument PAYLOAD; or redirect standard input"])
        payload = sys.stdin.buffer.read()
    client.set_schedule(name, topic, payload, **options)
    at_ms = client.find_schedule(name).next_at_ms
    output.done(f"{escape(name)}: set, next at {shown_time(at_ms)}", {"name": name, "done": "set", "next_at_ms": at_ms})


@command.command()
@flags.argument("name", type=NAME)
@with_output
@connected
def fire(client: BrokerClient, name: str, output: Output) -> None:
    """Publish the message of the schedule NAME now, in addition to its times; print its id."""
    message_id = client.fire_schedule(name)
    output.done(message_id, {"name": name, "done": "fired", "id": message_id})


@command.command()
@flags.argument("name", type=NAME)
@flags.flag("--yes", is_flag=True, help="Do not ask.")
@with_output
@connected
def delete(client: BrokerClient, name: str, yes: bool, output: Output) -> None:
    """Delete the schedule NAME."""
    asking.confirm(f"delete the schedule {quote(name)}", yes)
    client.delete_schedule(name)
    output.done(f"{escape(name)}: deleted", {"name": name, "done": "deleted"})


def _schedules(client: BrokerClient) -> Iterator[Schedule]:
    after: str | None = None
    while page := client.schedules(after=after, count=_PAGE):
        yield from page
        after = page[-1].name


def _members(schedule: Schedule) -> dict[str, Any]:
    """Return a schedule as JSON, without what it does not have."""
    members = {
        "name": schedule.name,
        "topic": schedule.topic,
        "cron": schedule.cron,
        "zone": schedule.zone,
        "every_seconds": schedule.every_seconds,
        "next_at_ms": schedule.next_at_ms,
        "missed": schedule.missed,
        "until_ms": schedule.until_ms,
        "key": bytes_value(schedule.key),
        "headers": [[name, bytes_value(value)] for name, value in schedule.headers],
        "ttl_seconds": schedule.ttl_seconds,
        "priority": "" if schedule.priority == "normal" else schedule.priority,
    }
    payload = {} if schedule.payload is None else payload_member(schedule.payload)
    return {name: value for name, value in members.items() if value} | payload
