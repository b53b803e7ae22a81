"""A group of the topic that follows a stream, so that the broker can delete messages that every group has processed.

    a stream starts, or continues ─▶ the group is created there       a micro-batch is done ─▶ the group moves after it

A group is moved to the next message of each partition at once, so it is never before or after the stream. If a user
deletes it, it is created again where the stream is; messages deleted meanwhile are reported by the read. If a topic was
deleted, and possibly created again, it has no message at the stream's offset. A group would hold back nothing there, so
none is created.
"""

from dataclasses import replace

from miniqueue.spark.offsets import Offsets
from miniqueue_client import Client, RefusedError
from miniqueue_client.calls import groups

#: The broker's error code for an offset that was never published.
_PAST_THE_END = "BADOPTION"


def make_groups(client: Client, group: str, start: Offsets) -> None:
    """Create the group of each topic at its start; a group that exists is not moved."""
    for topic, of in start.items():
        call = groups.create_group(topic, group, start=_position(of))
        try:
            client.execute(replace(call, is_repeatable=True))  # a repeated creation finds the group and is harmless
        except RefusedError as exc:
            if exc.code not in ("GROUPEXISTS", _PAST_THE_END):
                raise


def move_groups(client: Client, group: str, end: Offsets) -> None:
    """Move the group of each topic to `end`; create it there if it does not exist."""
    for topic, of in end.items():
        if of:
            _move_group(client, group, topic, of)


def _move_group(client: Client, group: str, topic: str, end: dict[str, int]) -> None:
    try:
        client.seek_group(topic, group, _position(end))
    except RefusedError as exc:
        if exc.code == "NOGROUP":
            make_groups(client, group, {topic: end})
        elif exc.code != _PAST_THE_END:
            raise


def _position(offsets: dict[str, int]) -> str:
    return ",".join(f"{partition}-{offset}" for partition, offset in offsets.items()) or "earliest"
