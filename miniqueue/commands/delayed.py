"""`miniqueue delayed`: lists delayed messages, makes them due, and cancels them."""

from datetime import UTC, datetime
from typing import Any, Final

from miniqueue.commands.shell import asking, flags
from miniqueue.commands.shell.acting import act_on
from miniqueue.commands.shell.connecting import BrokerClient, connected
from miniqueue.commands.shell.message_table import DUE, ID, KEY, PAYLOAD, PUBLISHED, message_rows
from miniqueue.commands.shell.output import Output, with_output
from miniqueue.commands.shell.texts import counted
from miniqueue.commands.shell.topic_names import TOPIC
from miniqueue.commands.shell.values import COUNT, DURATION, NAME, TIME
from miniqueue.errors import ConfigError
from miniqueue.server.process.escaping import escape, quote
from miniqueue_client import Message, Selection

_COLUMNS: Final = (ID, DUE, PUBLISHED, KEY, PAYLOAD)
_MAX_PAGE: Final = 1000


@flags.group()
def command() -> None:
    """List delayed messages, make them due, and cancel them."""


@command.command(epilog="Example: miniqueue delayed ls orders")
@flags.argument("topic", type=TOPIC)
@flags.flag("-n", "--count", type=COUNT, default=100, show_default=True, help="Number of messages at most.")
@flags.flag("--group", type=NAME, help="Group that has delayed them.  [default: default]")
@with_output
@connected
def ls(client: BrokerClient, topic: str, count: int, group: str | None, output: Output) -> None:
    """List the delayed messages of TOPIC, next due first."""
    messages: list[Message] = []
    while len(messages) < count:
        after = messages[-1].id if messages else None
        wanted = min(count - len(messages), _MAX_PAGE)
        page = client.peek(topic, state="delayed", count=wanted, after=after, group=group)
        messages += page
        if len(page) < wanted:
            break
    output.rows(_COLUMNS, message_rows(messages), empty=f"There are no delayed messages in {escape(topic)}.")


@command.command(epilog="Examples: miniqueue delayed due orders 0-1795658516667-1 · miniqueue delayed due orders --all")
@flags.argument("topic", type=TOPIC)
@flags.argument("ids", nargs=-1, metavar="[ID]…")
@flags.flag("--all", "all_", is_flag=True, help="All delayed messages.")
@flags.flag("--at", type=TIME, help="Make them due at this time.  [default: now]")
@flags.flag("--delay", type=DURATION, help="Make them due after this time.")
@flags.flag("--group", type=NAME, help="Group that has delayed them.  [default: default]")
@with_output
@connected
def due(client: BrokerClient, topic: str, ids: tuple[str, ...], output: Output, **options: Any) -> None:  # noqa: ANN401 - values of flags
    """Make delayed messages of TOPIC due, now or at another time: those with an ID, or all."""
    _check(ids, options["all_"])
    at, delay = options["at"], options["delay"]
    if at is not None and delay is not None:
        raise ConfigError(["flags --at and --delay: only one can be used"])
    if at is None and delay is None:
        at = datetime.now(UTC)
    for message_id in ids:
        client.reschedule(topic, message_id, at=at, delay_seconds=delay, group=options["group"])
    selection = Selection(state="delayed", group=options["group"])
    count = len(ids) or act_on(client, "rescheduling", "due", topic, selection, at=at, delay_seconds=delay)
    members = {"topic": topic, "done": "rescheduled", "count": count}
    output.done(f"{escape(topic)}: {counted(count, 'message')} rescheduled", members)


@command.command(epilog="Example: miniqueue delayed cancel orders 0-1795658516667-1")
@flags.argument("topic", type=TOPIC)
@flags.argument("ids", nargs=-1, metavar="[ID]…")
@flags.flag("--all", "all_", is_flag=True, help="All delayed messages.")
@flags.flag("--yes", is_flag=True, help="Do not ask.")
@with_output
@connected
def cancel(client: BrokerClient, topic: str, ids: tuple[str, ...], all_: bool, yes: bool, output: Output) -> None:
    """Delete delayed messages of TOPIC: those with an ID, or all."""
    _check(ids, all_)
    asking.confirm(f"delete {len(ids) or 'all'} delayed messages of {quote(topic)}", yes)
    for message_id in ids:
        client.delete_message(topic, message_id)
    count = len(ids) or act_on(client, "deleting", "delete", topic, Selection(state="delayed"))
    output.done(
        f"{escape(topic)}: {counted(count, 'message')} cancelled", {"topic": topic, "done": "cancelled", "count": count}
    )


def _check(ids: tuple[str, ...], is_all: bool) -> None:
    if bool(ids) == is_all:
        raise ConfigError(["name the ids of messages, or use --all"])
