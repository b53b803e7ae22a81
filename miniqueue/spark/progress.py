"""A group of the topic that goes along with a stream, so that the broker can delete what every group is done with.

    a stream begins, or goes on ─▶ the group is made there       a micro-batch is done ─▶ the group goes on behind it

A group is moved to the next message of each partition at once, so it is neither behind nor in front. One that somebody
deletes is made again where reading is: what went meanwhile, the reading finds missing. A topic that was deleted, and
perhaps made again, has no message where reading is: there is nothing that a group could hold back, and none is made.
"""

from miniqueue.client import Client, RefusedError, group_calls
from miniqueue.spark.offsets import Offsets

#: The broker's word for a message that was never published.
_PAST_THE_END = "BADOPTION"


def make_groups(client: Client, group: str, start: Offsets) -> None:
    """Make the group of each topic, where reading begins; one that is there is left where it is."""
    for topic, of in start.items():
        call = group_calls.create_group(topic, group, start=_place(of))
        try:
            client.execute(call._replace(is_repeatable=True))  # where it was done and nobody knows, it is there
        except RefusedError as exc:
            if exc.code not in ("GROUPEXISTS", _PAST_THE_END):
                raise


def move_groups(client: Client, group: str, end: Offsets) -> None:
    """Have the group of each topic go on where reading does; one that is not there is made there."""
    for topic, of in end.items():
        if of:
            _move_group(client, group, topic, of)


def _move_group(client: Client, group: str, topic: str, end: dict[str, int]) -> None:
    try:
        client.seek_group(topic, group, _place(end))
    except RefusedError as exc:
        if exc.code == "NOGROUP":
            make_groups(client, group, {topic: end})
        elif exc.code != _PAST_THE_END:
            raise


def _place(offsets: dict[str, int]) -> str:
    return ",".join(f"{partition}-{offset}" for partition, offset in offsets.items()) or "earliest"
