"""`miniqueue group`: creates, moves, pauses, and deletes a group of a topic."""

from datetime import datetime
from typing import Final

from miniqueue.commands.shell import asking, flags
from miniqueue.commands.shell.columns import Column
from miniqueue.commands.shell.connecting import BrokerClient, connected
from miniqueue.commands.shell.output import Output, with_output
from miniqueue.commands.shell.texts import counted, shown_age
from miniqueue.commands.shell.topic_names import TOPIC
from miniqueue.commands.shell.values import NAME, POSITIVE_DURATION, START
from miniqueue.server.process.escaping import escape, quote

_HOLDER_COLUMNS: Final = (
    Column("user", "user"),
    Column("address", "address"),
    Column("leased", "leased", is_number=True),
    Column("first ends in", "remaining_ms", lambda ms: shown_age(ms / 1000), is_number=True),
)


@flags.group()
def command() -> None:
    """Create, move, pause, and delete groups. `miniqueue groups TOPIC` lists them."""


@command.command(epilog="Example: miniqueue group create orders archive --start latest")
@flags.argument("topic", type=TOPIC)
@flags.argument("group", type=NAME)
@flags.flag("--start", type=START, default="earliest", show_default=True, help="First message; see group seek -h.")
@flags.flag("--ephemeral", is_flag=True, help="End with the last consumer.")
@flags.flag("--idle", type=POSITIVE_DURATION, help="End after this time without a consumer.")
@with_output
@connected
def create(
    client: BrokerClient,
    *,
    topic: str,
    group: str,
    start: str | datetime,
    ephemeral: bool,
    idle: float | None,
    output: Output,
) -> None:
    """Create GROUP of TOPIC, and TOPIC if it does not exist. Fails if the group exists."""
    client.create_group(topic, group, start=start, ephemeral=ephemeral, idle_seconds=idle)
    output.done(f"{escape(topic)} {escape(group)}: created", {"topic": topic, "group": group, "done": "created"})


@command.command(epilog="Example: miniqueue group seek orders archive --to -1h --dry-run")
@flags.argument("topic", type=TOPIC)
@flags.argument("group", type=NAME)
@flags.flag("--to", "start", type=START, required=True, help="New position.")
@flags.flag("--dry-run", is_flag=True, help="Only count the messages.")
@flags.flag("--yes", is_flag=True, help="Do not ask.")
@with_output
@connected
def seek(
    client: BrokerClient,
    *,
    topic: str,
    group: str,
    start: str | datetime,
    dry_run: bool,
    yes: bool,
    output: Output,
) -> None:
    """Move GROUP of TOPIC to a position, earlier or later. What it has leased is returned, and it reads on from there.

    A position is earliest, latest, the id of a message, ids separated by commas, one for each partition, or a time,
    such as 2026-12-01T08:00:00Z or -1h. Prints how many messages the group had to get before, and after.
    """
    counts = client.seek_group(topic, group, start, dry_run=True)
    if not dry_run:
        moved = f"from {counted(counts.before, 'message')} to get to {counts.after}"
        asking.confirm(f"move the group {quote(group)} of {quote(topic)} {moved}", yes)
        counts = client.seek_group(topic, group, start)
    verb = "would have" if dry_run else "has"
    output.done(
        f"{escape(topic)} {escape(group)}: had {counted(counts.before, 'message')} to get, {verb} {counts.after}",
        {"topic": topic, "group": group, "before": counts.before, "after": counts.after, "dry_run": dry_run},
    )


@command.command()
@flags.argument("topic", type=TOPIC)
@flags.argument("group", type=NAME)
@flags.flag("--yes", is_flag=True, help="Do not ask.")
@with_output
@connected
def delete(client: BrokerClient, topic: str, group: str, yes: bool, output: Output) -> None:
    """Delete GROUP of TOPIC. Fails if it has consumers, or is the only group."""
    asking.confirm(f"delete the group {quote(group)} of {quote(topic)}", yes)
    client.delete_group(topic, group)
    output.done(f"{escape(topic)} {escape(group)}: deleted", {"topic": topic, "group": group, "done": "deleted"})


@command.command()
@flags.argument("topic", type=TOPIC)
@flags.argument("group", type=NAME)
@flags.flag("--for", "seconds", type=POSITIVE_DURATION, help="End of the pause.  [default: until resume]")
@with_output
@connected
def pause(client: BrokerClient, topic: str, group: str, seconds: float | None, output: Output) -> None:
    """Deliver nothing to GROUP of TOPIC. Leased messages can still be settled."""
    client.pause(topic, seconds=seconds, group=group)
    output.done(f"{escape(topic)} {escape(group)}: paused", {"topic": topic, "group": group, "done": "paused"})


@command.command()
@flags.argument("topic", type=TOPIC)
@flags.argument("group", type=NAME)
@with_output
@connected
def resume(client: BrokerClient, topic: str, group: str, output: Output) -> None:
    """End a pause of GROUP of TOPIC."""
    client.resume(topic, group=group)
    output.done(f"{escape(topic)} {escape(group)}: resumed", {"topic": topic, "group": group, "done": "resumed"})


@command.command()
@flags.argument("topic", type=TOPIC)
@flags.argument("group", type=NAME, default="default")
@with_output
@connected
def members(client: BrokerClient, topic: str, group: str, output: Output) -> None:
    """List the members of GROUP of TOPIC, and the partitions of each."""
    rows = [{"member": name, "partitions": list(each)} for name, each in client.members(topic, group).items()]
    output.rows((Column("member", "member"), Column("partitions", "partitions")), rows, empty="There are no members.")


@command.command(epilog="Example: miniqueue group holders orders archive")
@flags.argument("topic", type=TOPIC)
@flags.argument("group", type=NAME, default="default")
@with_output
@connected
def holders(client: BrokerClient, topic: str, group: str, output: Output) -> None:
    """List who holds messages of GROUP of TOPIC that were received, and until when.

    Clients without a user have their address. Messages of streams are not listed.
    """
    rows = [holder._asdict() for holder in client.holders(topic, group)]
    output.rows(_HOLDER_COLUMNS, rows, empty="Nobody holds messages that were received.")
