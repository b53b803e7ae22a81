"""What a client asks about groups, each of which reads a topic independently of others; as `message_calls`."""

from dataclasses import fields
from datetime import datetime
from typing import TypeAlias

from miniqueue.client import answers
from miniqueue.client.call import Call, Reply, Word
from miniqueue.client.group import Group, Seek

#: Where a group begins: `earliest`, `latest`, the id of a message, ids with commas between them, or a time.
Start: TypeAlias = str | datetime

_FIGURES = frozenset(field.name for field in fields(Group)) - {"name", "position"}


def create_group(topic: str, group: str, *, start: Start = "earliest") -> Call[None]:
    """Make a group, and its topic if there is none; refused with `GROUPEXISTS`.

    Args:
      topic: what it reads.
      group: its name.
      start: `earliest`, `latest`, the id of a message, ids of one in each partition with commas between them, or a
        time, with a time zone or in local time.
    """
    return Call(("GROUP", "CREATE", topic, group, "FROM", _place(start)), answers.nothing, is_repeatable=False)


def groups(topic: str) -> Call[list[Group]]:
    """List the groups of a topic."""
    return Call(("GROUP", "LIST", topic), _groups)


def members(topic: str, group: str = "default") -> Call[dict[str, tuple[int, ...]]]:
    """Return the partitions that each member of a group reads, by name; none where consumers compete for all."""
    words = ("GROUP", "MEMBERS", topic, group)
    return Call(words, lambda reply: {answers.text(name): tuple(numbers) for name, numbers in reply.items()})


def seek_group(topic: str, group: str, start: Start, *, dry_run: bool = False) -> Call[Seek]:
    """Have a group go on from another place, back or forth; what it had leased is void.

    Args:
      topic: what it reads.
      group: its name.
      start: as in `create_group`.
      dry_run: only count.
    """
    words = ("GROUP", "SEEK", topic, group, _place(start), *(("DRYRUN",) if dry_run else ()))
    return Call(words, lambda reply: Seek(reply[b"before"], reply[b"after"]))


def delete_group(topic: str, group: str) -> Call[None]:
    """Delete a group; refused with `GROUPINUSE` when it has consumers, or is the only one of its topic."""
    return Call(("GROUP", "DELETE", topic, group), answers.nothing, is_repeatable=False)


def _place(start: Start) -> Word:
    return round(start.timestamp() * 1000) if isinstance(start, datetime) else start


def _groups(reply: Reply) -> list[Group]:
    return [_group({answers.text(name): value for name, value in one.items()}) for one in reply]


def _group(told: dict[str, Reply]) -> Group:
    figures = {name: int(told[name]) for name in _FIGURES & told.keys()}
    return Group(answers.text(told["name"]), **figures, position=tuple(answers.texts(told["position"])))
