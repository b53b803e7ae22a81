"""`miniqueue trace`: prints what happened to a message, attempt by attempt, and whether it is still retained."""

from typing import Any, Final

from miniqueue.commands.messages.span import lane_and_offset
from miniqueue.commands.messages.timeline import json_steps, lines_of, outcomes_of, seconds_in_all, summary_of
from miniqueue.commands.shell import flags
from miniqueue.commands.shell.connecting import BrokerClient, connected
from miniqueue.commands.shell.output import Output, with_output
from miniqueue.commands.shell.texts import shown_time
from miniqueue.commands.shell.topic_names import TOPIC
from miniqueue.commands.shell.values import FILE, NAME
from miniqueue.errors import ClientError
from miniqueue_client import Step

_SECTION: Final = "Broker"


@flags.command(epilog="Example: miniqueue trace orders 0-17")
@flags.argument("topic", type=TOPIC)
@flags.argument("message_id", type=NAME, metavar="ID")
@flags.flag("--resp-port", section=_SECTION, help="Port of the broker on this machine.  [default: 6379]")
@flags.flag("--config", type=FILE, section=_SECTION, help="File with the settings of the broker on this machine.")
@with_output
@connected
def command(client: BrokerClient, topic: str, message_id: str, output: Output) -> None:
    """Print the events of a message in order: when it was published, delivered, returned, acknowledged, and by whom.

    Also those in topics to which it was moved; then how often each group got it, how long that took, and how long the
    topic retains the message. The topic's setting trace must have been on.
    """
    steps = client.trace(topic, message_id)
    retained = _retained(client, steps[-1]) if steps else {}
    if output.form == "jsonl":
        output.objects(json_steps(steps))
        return
    if output.form == "json":
        groups = [
            {"topic": each.topic, "id": each.id, "group": each.group, "attempts": each.attempts, "end": each.end}
            | {"seconds": each.seconds}
            for each in outcomes_of(steps)
        ]
        seconds = seconds_in_all(steps)
        members = {"topic": topic, "id": message_id, "seconds": seconds, "retained": retained, "groups": groups}
        output.record({**members, "steps": json_steps(steps)})
        return
    lines = [*lines_of(steps, topic, message_id), "", *summary_of(steps), *_shown(retained)]
    output.write("".join(f"{line}\n" for line in lines))


def _retained(client: BrokerClient, last: Step) -> dict[str, Any]:
    """Return whether a message is in the log where it was last, and until when; nothing if that cannot be known."""
    try:
        settings = client.topic_settings(last.topic)
        lane, offset = lane_and_offset(last.id)
        page = client.read(last.topic, lane, offset, count=1)
    except (ClientError, ValueError):  # no topic, no right to read it, or the id of a delayed message
        return {}
    is_there = bool(page.messages) and page.messages[0].id == last.id
    members: dict[str, Any] = {"topic": last.topic, "in_log": is_there, **_limits(settings)}
    if is_there and settings["retention_seconds"] != "default":
        kept_ms = round(float(settings["retention_seconds"]) * 1000)
        members["until_ms"] = page.messages[0].published_at_ms + kept_ms
    return members


def _limits(settings: dict[str, str]) -> dict[str, str]:
    names = ("retention", "retention_seconds", "retention_bytes", "retention_messages")
    return {name: settings[name] for name in names if settings[name] != "default"}


def _shown(retained: dict[str, Any]) -> list[str]:
    if not retained:
        return []
    if not retained["in_log"]:
        return ["no longer in the log"]
    others = [name for name in ("retention_bytes", "retention_messages") if name in retained]
    if "until_ms" in retained:
        text = f"in the log, retained until {shown_time(retained['until_ms'])}"
    elif retained["retention"] == "forever":
        text = "in the log, retained forever"
    elif others:
        text = "in the log, retained"
    else:
        return ["in the log, until each group is done with it"]
    return [text + "".join(f", at most {retained[name]} {name.removeprefix('retention_')}" for name in others)]
