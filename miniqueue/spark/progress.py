"""A group of the topic that goes along with a stream, so that the broker can delete what every group is done with.

    a new stream begins ─▶ the group is made where it begins       a micro-batch is done ─▶ the group goes on behind it

A group is moved to one message, and goes on in other partitions from that message's time. So of the first messages that
were not read yet, one of each partition, the one that was committed first is taken: the group may stay a little behind,
and never gets in front.
"""

from miniqueue.client import Client, Message, RefusedError
from miniqueue.spark.offsets import Offsets


def make_groups(client: Client, group: str, start: Offsets) -> None:
    """Make the group of each topic, where reading begins; one that is there is left where it is."""
    for topic, of in start.items():
        try:
            client.create_group(topic, group, start=_place(client, topic, of) or "earliest")
        except RefusedError as exc:
            if exc.code != "GROUPEXISTS":
                raise


def move_groups(client: Client, group: str, end: Offsets) -> None:
    """Have the group of each topic go on where reading does."""
    for topic, of in end.items():
        if (place := _place(client, topic, of)) is not None:
            client.seek_group(topic, group, place)


def _place(client: Client, topic: str, offsets: dict[str, int]) -> str | None:
    """Return the id of a message behind which no other partition has been read; None when there is none."""
    if len(offsets) == 1:
        [(partition, offset)] = offsets.items()
        return f"{partition}-{offset}"
    firsts = [first for partition, offset in offsets.items() if (first := _first(client, topic, partition, offset))]
    return min(firsts, key=lambda message: message.published_at_ms).id if firsts else None


def _first(client: Client, topic: str, partition: str, offset: int) -> Message | None:
    return next(iter(client.read(topic, partition, offset, count=1).messages), None)
