"""`miniqueue topic`: creates, shows, changes, pauses, purges, and deletes a topic."""

import difflib
from typing import Any, Final

from miniqueue.commands.shell import asking, flags
from miniqueue.commands.shell.acting import purge as purge_messages
from miniqueue.commands.shell.columns import Column
from miniqueue.commands.shell.connecting import BrokerClient, connected
from miniqueue.commands.shell.group_table import GROUP_COLUMNS, group_rows
from miniqueue.commands.shell.output import Output, with_output
from miniqueue.commands.shell.statistics import SHOWS
from miniqueue.commands.shell.texts import counted, shown_age
from miniqueue.commands.shell.topic_names import TOPIC
from miniqueue.commands.shell.values import NAME, POSITIVE_DURATION, SETTING, Choice, Setting
from miniqueue.core.settings.settings import FIELDS, TopicSettings, help_lines, plain, text_of
from miniqueue.errors import ConfigError
from miniqueue.server.process.escaping import escape, quote
from miniqueue_client.calls.topics import Side

_SETTING_COLUMNS: Final = (Column("setting", "setting"), Column("value", "value"), Column("default", "default"))


@flags.group()
def command() -> None:
    """Create, show, change, pause, purge, and delete topics."""


@command.command(epilog="Example: miniqueue topic show orders")
@flags.argument("topic", type=TOPIC)
@flags.flag("--all", "shows_all", is_flag=True, help="Show also settings that are at their defaults.")
@with_output
@connected
def show(client: BrokerClient, topic: str, shows_all: bool, output: Output) -> None:
    """Show the statistics, the groups, and the settings of TOPIC."""
    stats, groups = client.stats(topic), client.groups(topic)
    settings = [
        row for row in _setting_rows(client.topic_settings(topic)) if shows_all or row["value"] != row["default"]
    ]
    if output.form != "table":
        values = {row["setting"]: row["value"] for row in settings}
        output.record({"topic": topic, **stats, "groups": list(group_rows(groups)), "settings": values})
        return
    output.record({"topic": topic, **{name: value for name, value in stats.items() if value is not None}}, SHOWS)
    output.write("\n")
    output.rows(GROUP_COLUMNS, group_rows(groups))
    if settings:
        output.write("\n")
        output.rows(_SETTING_COLUMNS, settings)


@command.command(epilog="Example: miniqueue topic create orders retention=forever partitions=4")
@flags.argument("topic", type=TOPIC)
@flags.argument("settings", type=SETTING, nargs=-1, metavar="[SETTING=VALUE]…")
@with_output
@connected
def create(client: BrokerClient, topic: str, settings: tuple[Setting, ...], output: Output) -> None:
    """Create TOPIC with settings; `miniqueue topic settings` lists them. Fails if it exists."""
    client.create_topic(topic, **_checked(settings))
    output.done(f"{escape(topic)}: created", {"topic": topic, "done": "created"})


@command.command(name="set", epilog="Example: miniqueue topic set orders max_deliveries=5 retry_delays=1,5,30")
@flags.argument("topic", type=TOPIC)
@flags.argument("settings", type=SETTING, nargs=-1, required=True, metavar="SETTING=VALUE…")
@with_output
@connected
def set_topic(client: BrokerClient, topic: str, settings: tuple[Setting, ...], output: Output) -> None:
    """Change settings of TOPIC, all or none. The value `default` resets a setting."""
    client.set_topic(topic, **_checked(settings))
    output.done(f"{escape(topic)}: changed", {"topic": topic, "done": "changed"})


@command.command()
@with_output
def settings(output: Output) -> None:
    """List the settings of topics: what each does, its values, and its default."""
    if output.form == "table":
        output.write("".join(f"{line}\n" for line in help_lines()))
        return
    defaults = _defaults()
    rows = [
        {"setting": name, "meaning": plain(field.text), "values": plain(field.allowed), "default": defaults[name]}
        for name, field in FIELDS.items()
    ]
    output.rows((), rows)


@command.command()
@flags.argument("topic", type=TOPIC)
@flags.flag("--yes", is_flag=True, help="Do not ask.")
@with_output
@connected
def delete(client: BrokerClient, topic: str, yes: bool, output: Output) -> None:
    """Delete TOPIC, with all its messages."""
    count = client.stats(topic)["depth"]
    assert isinstance(count, int)
    asking.confirm(f"delete the topic {quote(topic)} with {counted(count, 'message')}", yes)
    client.delete_topic(topic)
    output.done(f"{escape(topic)}: deleted", {"topic": topic, "done": "deleted"})


@command.command()
@flags.argument("topic", type=TOPIC)
@flags.flag("--side", type=Choice(["in", "out", "both"]), help="in: publishing; out: delivery.  [default: both]")
@flags.flag("--for", "seconds", type=POSITIVE_DURATION, help="End of the pause.  [default: until resume]")
@with_output
@connected
def pause(client: BrokerClient, topic: str, side: Side | None, seconds: float | None, output: Output) -> None:
    """Stop publishing to TOPIC, delivery from it, or both. Leased messages can still be settled."""
    client.pause(topic, side, seconds=seconds)
    output.done(f"{escape(topic)}: paused", {"topic": topic, "done": "paused", "side": side or "both"})


@command.command()
@flags.argument("topic", type=TOPIC)
@flags.flag("--side", type=Choice(["in", "out", "both"]), help="in: publishing; out: delivery.  [default: both]")
@with_output
@connected
def resume(client: BrokerClient, topic: str, side: Side | None, output: Output) -> None:
    """End a pause of TOPIC."""
    client.resume(topic, side)
    output.done(f"{escape(topic)}: resumed", {"topic": topic, "done": "resumed", "side": side or "both"})


@command.command(epilog="Example: miniqueue topic purge orders --state delayed --older-than 7d")
@flags.argument("topic", type=TOPIC)
@flags.flag("--state", type=Choice(["ready", "delayed"]), help="Only messages in this state.")
@flags.flag("--older-than", type=POSITIVE_DURATION, help="Only messages that are older.")
@flags.flag("--group", type=NAME, help="Only for this group.")
@flags.flag("--yes", is_flag=True, help="Do not ask.")
@with_output
@connected
def purge(client: BrokerClient, topic: str, yes: bool, output: Output, **options: Any) -> None:  # noqa: ANN401 - values of flags
    """Remove the messages of TOPIC that wait: ready and delayed ones, not those that consumers have."""
    of_group = f" for the group {quote(options['group'])}" if options["group"] else ""
    chosen = f"{options['state'] or 'ready and delayed'} messages of {quote(topic)}{of_group}"
    older = "" if options["older_than"] is None else f" that are older than {shown_age(options['older_than'])}"
    asking.confirm(f"remove the {chosen}{older}", yes)
    count = purge_messages(
        client, topic, state=options["state"], older_than_seconds=options["older_than"], group=options["group"]
    )
    output.done(
        f"{escape(topic)}: {counted(count, 'message')} removed", {"topic": topic, "done": "purged", "count": count}
    )


def _defaults() -> dict[str, str]:
    return {name: text_of(value) for name, value in TopicSettings()._asdict().items()}


def _setting_rows(texts: dict[str, str]) -> list[dict[str, str]]:
    defaults = _defaults()
    return [{"setting": name, "value": text, "default": defaults.get(name, "")} for name, text in texts.items()]


def _checked(settings: tuple[Setting, ...]) -> dict[str, str]:
    """Return the settings by name; raises ConfigError for a name that does not exist, with the nearest one."""
    known = _defaults()
    for setting in settings:
        if setting.name not in known:
            nearest = difflib.get_close_matches(setting.name, known, n=1)
            hint = f"did you mean {nearest[0]}?" if nearest else "see miniqueue topic settings"
            raise ConfigError([f"no such setting: {quote(setting.name)}; {hint}"])
    return {setting.name: setting.value for setting in settings}
