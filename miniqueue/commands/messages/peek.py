"""`miniqueue peek`: shows messages without leasing them, by their state, by conditions, or one by its id."""

from collections.abc import Iterator
from typing import Any, Final

from miniqueue.commands.shell import flags
from miniqueue.commands.shell.columns import Column
from miniqueue.commands.shell.connecting import BrokerClient, connected
from miniqueue.commands.shell.message_table import DELIVERIES, DUE, ID, KEY, PUBLISHED, message_rows
from miniqueue.commands.shell.message_table import PAYLOAD as PAYLOAD_COLUMN
from miniqueue.commands.shell.output import Output, with_output
from miniqueue.commands.shell.topic_names import TOPIC
from miniqueue.commands.shell.values import COUNT, HEADER, NAME, PAYLOAD, POSITIVE_DURATION, Choice, Header
from miniqueue.errors import ConfigError
from miniqueue.server.process.escaping import escape
from miniqueue_client import Message, Selection

_COLUMNS: Final = (ID, Column("state", "state"), PUBLISHED, DUE, DELIVERIES, KEY, PAYLOAD_COLUMN)
_DEFAULT_COUNT: Final = 10
_MAX_PAGE: Final = 1000


@flags.command(epilog="Examples: miniqueue peek orders · miniqueue peek orders --state dead --reason max_deliveries")
@flags.argument("topic", type=TOPIC)
@flags.argument("message_id", required=False, metavar="[ID]")
@flags.flag("--state", type=Choice(["ready", "leased", "delayed", "dead"]), help="State of the messages.")
@flags.flag("-n", "--count", type=COUNT, default=_DEFAULT_COUNT, show_default=True, help="Number of messages at most.")
@flags.flag("--group", type=NAME, help="Group that the states refer to.  [default: default]")
@flags.flag("--key", type=PAYLOAD, help="Only messages with this key.")
@flags.flag("--header", type=HEADER, help="Only messages with this header.")
@flags.flag("--contains", type=PAYLOAD, help="Only messages whose payloads contain this.")
@flags.flag("--older-than", type=POSITIVE_DURATION, help="Only messages that are older.")
@flags.flag("--reason", help="Only dead letters with this reason.")
@with_output
@connected
def command(client: BrokerClient, topic: str, message_id: str | None, output: Output, **options: Any) -> None:  # noqa: ANN401 - values of flags
    """Show messages of TOPIC, or the one with ID, without leasing or moving them.

    By default, messages that are ready, in the order of their delivery. The state dead shows the dead letters of TOPIC,
    wherever they are.
    """
    if message_id is not None:
        output.rows(_COLUMNS, message_rows([client.find(topic, message_id, group=options["group"])]))
        return
    empty = f"There are no {options['state'] or 'ready'} messages in {escape(topic)}."
    output.rows(_COLUMNS, message_rows(_messages(client, topic, options)), empty=empty)


def _messages(client: BrokerClient, topic: str, options: dict[str, Any]) -> Iterator[Message]:
    names = ("key", "header", "contains", "older_than", "reason")
    if all(options[name] is None for name in names):
        return _peeked(client, topic, options)
    if options["state"] == "leased":
        raise ConfigError(["flag --state: leased messages are not searched; leave out the conditions"])
    return _searched(client, topic, options)


def _peeked(client: BrokerClient, topic: str, options: dict[str, Any]) -> Iterator[Message]:
    remaining, after = options["count"], None
    while remaining:
        page = client.peek(
            topic, state=options["state"], count=min(remaining, _MAX_PAGE), after=after, group=options["group"]
        )
        yield from page
        remaining -= len(page)
        if len(page) < _MAX_PAGE:
            return
        after = page[-1].id


def _searched(client: BrokerClient, topic: str, options: dict[str, Any]) -> Iterator[Message]:
    header: Header | None = options["header"]
    selection = Selection(
        state=options["state"],
        key=options["key"],
        header=None if header is None else (header.name, header.value),
        contains=options["contains"],
        older_than_seconds=options["older_than"],
        reason=options["reason"],
        group=options["group"],
    )
    remaining, after = options["count"], None
    while remaining:
        page = client.search(topic, selection, count=min(remaining, _MAX_PAGE), after=after)
        yield from page.messages
        remaining -= len(page.messages)
        after = page.next
        if after is None:
            return
