"""Calls about groups, each of which reads a topic independently of the others; see `messages`."""

from dataclasses import fields
from datetime import datetime
from typing import TypeAlias

from miniqueue.client.calls import answers
from miniqueue.client.calls.call import Call, Reply, Word
from miniqueue.client.calls.values import Group, Seek

#: Where a group starts: `earliest`, `latest`, the id of a message, ids separated by commas, or a time.
Start: TypeAlias = str | datetime

_COUNTS = frozenset(field.name for field in fields(Group)) - {"name", "position"}


def create_group(topic: str, group: str, *, start: Start = "earliest") -> Call[None]:
    """Create a group, and its topic if necessary; refused with `GROUPEXISTS` if the group exists.

    Args:
      topic: the topic that the group reads.
      group: the name of the group.
      start: `earliest`, `latest`, the id of a message, ids separated by commas, one for each partition, or a time;
        without a time zone it is local time.
    """
    return Call(("GROUP", "CREATE", topic, group, "FROM", _position(start)), answers.nothing, is_repeatable=False)


def groups(topic: str) -> Call[list[Group]]:
    """List the groups of a topic."""
    return Call(("GROUP", "LIST", topic), _groups)


def members(topic: str, group: str = "default") -> Call[dict[str, tuple[int, ...]]]:
    """Return the partitions of each member of a group, by name; empty if the group has no members."""
    words = ("GROUP", "MEMBERS", topic, group)
    return Call(words, lambda reply: {answers.text(name): tuple(numbers) for name, numbers in reply.items()})


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


def _position(start: Start) -> Word:
    return round(start.timestamp() * 1000) if isinstance(start, datetime) else start


def _groups(reply: Reply) -> list[Group]:
    return [_group({answers.text(name): value for name, value in item.items()}) for item in reply]


def _group(values: dict[str, Reply]) -> Group:
    counts = {name: int(values[name]) for name in _COUNTS & values.keys()}
    return Group(answers.text(values["name"]), **counts, position=tuple(answers.texts(values["position"])))
