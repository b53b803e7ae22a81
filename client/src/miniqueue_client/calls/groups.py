"""Calls about groups, each of which reads a topic independently of the others; see `messages`."""

from dataclasses import fields
from datetime import datetime
from typing import Any, TypeAlias

from miniqueue_client.calls import answers
from miniqueue_client.calls.call import Call, Reply, Seconds, Word, options, seconds_word, time_word
from miniqueue_client.calls.values import Group, LeaseHolder, Seek

_OTHERS = frozenset({"paused", "ephemeral", "idle_seconds", "ack_rate_10s"})
#: Where a group starts: `earliest`, `latest`, the id of a message, ids separated by commas, or a time.
Start: TypeAlias = str | datetime

_COUNTS = frozenset(field.name for field in fields(Group)) - {"name", "position", *_OTHERS}


def create_group(
    topic: str, group: str, *, start: Start = "earliest", ephemeral: bool = False, idle_seconds: Seconds | None = None
) -> Call[None]:
    """Create a group, and its topic if necessary; refused with `GROUPEXISTS` if the group exists.

    Args:
      topic: the topic that the group reads.
      group: the name of the group.
      start: `earliest`, `latest`, the id of a message, ids separated by commas, one for each partition, or a time;
        without a time zone it is local time.
      ephemeral: whether it ends with its last consumer.
      idle_seconds: after this time without a reader it ends; an ephemeral group after 5 s by default.
    """
    words = (*(("EPHEMERAL",) if ephemeral else ()), *options(idle=seconds_word(idle_seconds)))
    return Call(
        ("GROUP", "CREATE", topic, group, "FROM", _position(start), *words), answers.nothing, is_repeatable=False
    )


def groups(topic: str) -> Call[list[Group]]:
    """List the groups of a topic."""
    return Call(("GROUP", "LIST", topic), _groups)


def members(topic: str, group: str = "default") -> Call[dict[str, tuple[int, ...]]]:
    """Return the partitions of each member of a group, by name; empty if the group has no members."""
    words = ("GROUP", "MEMBERS", topic, group)
    return Call(words, lambda reply: {answers.text(name): tuple(numbers) for name, numbers in reply.items()})


def holders(topic: str, group: str = "default") -> Call[list[LeaseHolder]]:
    """List who holds the leases of receives of a group, most messages first; requires monitor on `*`."""
    return Call(("GROUP", "HOLDERS", topic, group), lambda reply: [_holder(item) for item in reply])


def seek_group(topic: str, group: str, start: Start, *, dry_run: bool = False) -> Call[Seek]:
    """Move a group to another position, earlier or later; its leases end.

    Args:
      topic: the topic that the group reads.
      group: the name of the group.
      start: the new position, see `create_group`.
      dry_run: whether only to count, and move nothing.
    """
    words = ("GROUP", "SEEK", topic, group, _position(start), *(("DRYRUN",) if dry_run else ()))
    return Call(words, lambda reply: Seek(reply[b"before"], reply[b"after"]))


def delete_group(topic: str, group: str) -> Call[None]:
    """Delete a group; refused with `GROUPINUSE` if it has consumers, or is the only one of its topic."""
    return Call(("GROUP", "DELETE", topic, group), answers.nothing, is_repeatable=False)


def _holder(item: dict[bytes, Reply]) -> LeaseHolder:
    user, address = (None if item[name] is None else answers.text(item[name]) for name in (b"user", b"address"))
    return LeaseHolder(user, address, int(item[b"leased"]), int(item[b"remaining_ms"]))


def _position(start: Start) -> Word:
    return time_word(start) if isinstance(start, datetime) else start


def _groups(reply: Reply) -> list[Group]:
    return [_group({answers.text(name): value for name, value in item.items()}) for item in reply]


def _group(values: dict[str, Reply]) -> Group:
    counts: dict[str, Any] = {name: int(values[name]) for name in _COUNTS & values.keys()}
    position = tuple(answers.texts(values["position"]))
    rate = values.get("ack_rate_10s")
    return Group(
        answers.text(values["name"]),
        **counts,
        position=position,
        paused=bool(values.get("paused")),
        ephemeral=bool(values.get("ephemeral")),
        idle_seconds=float(values.get("idle_seconds", 0)),
        ack_rate_10s=None if rate is None else float(rate),
    )
