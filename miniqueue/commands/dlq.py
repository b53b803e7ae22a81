"""`miniqueue dlq`: lists dead letters, shows one, moves them back, or drops them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from miniqueue.commands.shell import asking, flags
from miniqueue.commands.shell.acting import act_on
from miniqueue.commands.shell.columns import Column, shown
from miniqueue.commands.shell.connecting import BrokerClient, connected
from miniqueue.commands.shell.message_table import ID, KEY, PAYLOAD
from miniqueue.commands.shell.output import Output, with_output
from miniqueue.commands.shell.texts import counted, json_message, shown_age, shown_headers, shown_time
from miniqueue.commands.shell.topic_names import TOPIC
from miniqueue.commands.shell.values import COUNT, NAME, POSITIVE_DURATION, RATE
from miniqueue.commands.shell.values import PAYLOAD as BYTES
from miniqueue.errors import ConfigError
from miniqueue.server.process.escaping import escape, quote
from miniqueue_client import RefusedError, Selection
from miniqueue_client.calls import topics as topic_calls
from miniqueue_client.calls.call import Call
from miniqueue_client.calls.chosen import Act

F = TypeVar("F", bound=Callable[..., Any])

_SUFFIX: Final = ".dlq"
_PAGE: Final = 500
_OF_ONE_TOPIC: Final = frozenset({"NOTOPIC", "NOPERM"})
_TOPIC_COLUMNS: Final = (
    Column("topic", "topic"),
    Column("dead letters", "count", is_number=True),
    Column("oldest", "oldest_seconds", shown_age, is_number=True),
    Column("in", "dead_letter_topic"),
)


def _origin(name: str, show: Callable[[Any], str] = shown) -> Callable[[Mapping[str, Any]], str]:
    """Return what shows a member of the origin of a dead letter."""
    return lambda row: show(row.get("origin", {}).get(name))


_COLUMNS: Final = (
    ID,
    Column("died", "", _origin("died_at_ms", lambda at_ms: shown_time(at_ms or 0))),
    Column("reason", "", _origin("reason")),
    Column("failure", "failure"),
    Column("group", "", _origin("group")),
    KEY,
    PAYLOAD,
)


@flags.group()
def command() -> None:
    """List, show, redrive, and drop dead letters.

    TOPIC is the topic whose messages have died, such as orders; the name of its dead-letter topic, orders.dlq, also
    works. IDs are those in the dead-letter topic, as ls shows them.
    """


def _with_selection(function: F) -> F:
    """Add the flags that choose dead letters."""
    for add in (
        flags.flag("--older-than", type=POSITIVE_DURATION, help="Only those published longer ago."),
        flags.flag("--contains", type=BYTES, help="Only those whose payloads contain this."),
        flags.flag("--key", type=BYTES, help="Only those with this key."),
        flags.flag("--reason", help="Only those with this reason, such as max_deliveries."),
    ):
        function = add(function)
    return function


@command.command(epilog="Examples: miniqueue dlq ls · miniqueue dlq ls orders --reason max_deliveries")
@flags.argument("topic", type=TOPIC, required=False)
@flags.flag("-n", "--count", type=COUNT, default=100, show_default=True, help="Number of dead letters at most.")
@_with_selection
@with_output
@connected
def ls(client: BrokerClient, topic: str | None, count: int, output: Output, **options: Any) -> None:  # noqa: ANN401 - values of flags
    """List the dead letters of TOPIC, oldest first; without TOPIC, the topics that have dead letters."""
    if topic is None:
        output.rows(_TOPIC_COLUMNS, _topic_rows(client), empty="There are no dead letters.")
        return
    source = _source_of(topic)
    output.rows(
        _COLUMNS, _letters(client, source, count, options), empty=f"There are no such dead letters of {escape(source)}."
    )


@command.command(epilog="Example: miniqueue dlq show orders 0-17")
@flags.argument("topic", type=TOPIC)
@flags.argument("message_id", metavar="ID")
@with_output
@connected
def show(client: BrokerClient, topic: str, message_id: str, output: Output) -> None:
    """Show the dead letter of TOPIC with ID: its payload, where it came from, and why it died."""
    members = json_message(client.find(_dead_letter_topic(client, topic), message_id))
    if output.form != "table":
        output.record(members)
        return
    origin = {f"origin_{name}": value for name, value in members.pop("origin", {}).items()}
    shows = {name: shown_time for name in members | origin if name.endswith("_at_ms")}
    output.record({**members, **origin}, {**shows, "headers": shown_headers})


@command.command(epilog="Examples: miniqueue dlq redrive orders · miniqueue dlq redrive orders 0-17 0-18")
@flags.argument("topic", type=TOPIC)
@flags.argument("ids", nargs=-1, metavar="[ID]…")
@_with_selection
@flags.flag("--to", type=NAME, help="Move them to this topic.  [default: where they came from]")
@flags.flag("--limit", type=COUNT, help="Number of dead letters at most.")
@flags.flag("--rate", type=RATE, help="Number of messages per second at most.")
@flags.flag("--dry-run", is_flag=True, help="Only count them.")
@with_output
@connected
def redrive(client: BrokerClient, topic: str, ids: tuple[str, ...], output: Output, **options: Any) -> None:  # noqa: ANN401 - values of flags
    """Move the dead letters of TOPIC back: all, those with an ID, or those that the flags choose."""
    _check(ids, options)
    source = _source_of(topic)
    if ids:
        dead_letter_topic = _dead_letter_topic(client, topic)
        for message_id in ids:
            client.redrive_message(dead_letter_topic, message_id, to=options["to"])
        count = len(ids)
    else:
        count = _act(client, "redrive", source, options, to=options["to"], per_second=options["rate"])
    _report(output, source, "redriven", count, options)


@command.command(epilog="Example: miniqueue dlq drop orders --reason 'no such customer'")
@flags.argument("topic", type=TOPIC)
@flags.argument("ids", nargs=-1, metavar="[ID]…")
@_with_selection
@flags.flag("--limit", type=COUNT, help="Number of dead letters at most.")
@flags.flag("--dry-run", is_flag=True, help="Only count them.")
@flags.flag("--yes", is_flag=True, help="Do not ask.")
@with_output
@connected
def drop(client: BrokerClient, topic: str, ids: tuple[str, ...], yes: bool, output: Output, **options: Any) -> None:  # noqa: ANN401 - values of flags
    """Delete dead letters of TOPIC: all, those with an ID, or those that the flags choose."""
    _check(ids, options)
    source = _source_of(topic)
    if not options["dry_run"]:
        count = len(ids) or _act(client, "delete", source, {**options, "dry_run": True})
        asking.confirm(f"delete {counted(count, 'dead letter')} of {quote(source)}", yes)
    if ids:
        dead_letter_topic = _dead_letter_topic(client, topic)
        for message_id in ids:
            client.delete_message(dead_letter_topic, message_id)
        count = len(ids)
    else:
        count = _act(client, "delete", source, options)
    _report(output, source, "dropped", count, options)


def _check(ids: Sequence[str], options: Mapping[str, Any]) -> None:
    """Raise ConfigError if ids and flags that choose are mixed."""
    names = ("reason", "key", "contains", "older_than", "limit", "rate", "dry_run")
    chosen = [name for name in names if options.get(name)]
    if ids and chosen:
        raise ConfigError([f"flag --{chosen[0].replace('_', '-')}: cannot be used with ids"])


def _act(client: BrokerClient, act: Act, source: str, options: Mapping[str, Any], **order: Any) -> int:  # noqa: ANN401 - as `act_on`
    selection, limit = _selection(options), options["limit"]
    if options["dry_run"]:
        return client.act_on(act, source, selection, dry_run=True, limit=limit, **order)
    title = "redriving" if act == "redrive" else "deleting"
    return act_on(client, title, act, source, selection, limit, **order)


def _report(output: Output, source: str, verb: str, count: int, options: Mapping[str, Any]) -> None:
    would = "would be " if options["dry_run"] else ""
    members = {"topic": source, "done": verb, "count": count, "dry_run": options["dry_run"]}
    output.done(f"{escape(source)}: {counted(count, 'dead letter')} {would}{verb}", members)


def _selection(options: Mapping[str, Any]) -> Selection:
    return Selection(
        state="dead",
        key=options["key"],
        contains=options["contains"],
        older_than_seconds=options["older_than"],
        reason=options["reason"],
    )


def _letters(client: BrokerClient, source: str, count: int, options: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    remaining, after = count, None
    while remaining:
        page = client.search(source, _selection(options), count=min(remaining, 1000), after=after)
        yield from map(json_message, page.messages)
        remaining -= len(page.messages)
        if (after := page.next) is None:
            return


def _topic_rows(client: BrokerClient) -> Iterator[dict[str, Any]]:
    """Yield a row for each topic whose dead-letter topic has messages."""
    topics = client.topics()
    known = set(topics)
    for start in range(0, len(topics), _PAGE):
        page = topics[start : start + _PAGE]
        calls: list[Call[Any]] = [topic_calls.topic_settings(topic) for topic in page]
        settings = dict(zip(page, _known(client.execute_all(calls)), strict=True))
        moved_to = {topic: _moved_to(topic, texts) for topic, texts in settings.items() if texts is not None}
        of_others = {topic: name for topic, name in moved_to.items() if name != topic and name in known}
        calls = [topic_calls.stats(name) for name in of_others.values()]
        for (topic, name), stats in zip(of_others.items(), _known(client.execute_all(calls)), strict=True):
            if stats is not None and stats["depth"]:
                age = stats["oldest_seconds"]
                yield {"topic": topic, "count": stats["depth"], "oldest_seconds": age, "dead_letter_topic": name}


def _known(results: Sequence[Any]) -> Iterator[Any]:
    """Yield results, None for what was refused since a topic was deleted meanwhile, or the user may not see it."""
    for result in results:
        if isinstance(result, RefusedError) and result.code not in _OF_ONE_TOPIC:
            raise result
        yield None if isinstance(result, RefusedError) else result


def _moved_to(topic: str, texts: Mapping[str, str]) -> str:
    """Return the topic of the dead letters of a topic with these settings."""
    name = texts["dead_letter_topic"]
    return topic + _SUFFIX if name == "default" else name


def _source_of(topic: str) -> str:
    return topic.removesuffix(_SUFFIX) or topic


def _dead_letter_topic(client: BrokerClient, topic: str) -> str:
    source = _source_of(topic)
    return _moved_to(source, client.topic_settings(source))
