"""Groups as both protocols show them."""

from collections.abc import Mapping

from miniqueue.broker.model.views import GroupFigures
from miniqueue.core.message.ids import format_message_id
from miniqueue.core.options import read
from miniqueue.wire.resp_replies import Value


def shown_group(figures: GroupFigures) -> Mapping[Value, Value]:
    """Return the properties of a group, by name.

    `position` contains the id of the first unsettled message of each partition. Partitions are named as in ids.
    """
    position = [format_message_id(*number_and_seq).decode() for number_and_seq in sorted(figures.position.items())]
    members: dict[Value, Value] = dict(figures._asdict().items())
    lags: dict[Value, Value] = {partition_word(number): lag for number, lag in sorted(figures.lags.items())}
    return members | {
        "name": figures.name.decode(),
        "position": position,
        "lags": lags,
        "members": shown_members(figures),
        "moving": {partition_word(number): name.decode() for number, name in figures.moving.items()},
        "held_back": [partition_word(number) for number in figures.held_back],
    }


def shown_members(figures: GroupFigures) -> dict[Value, Value]:
    """Return the partitions of each member, by name."""
    return {name.decode(): list(numbers) for name, numbers in figures.members.items()}


def partition_word(number: int) -> str:
    """Return the name of a partition, or of a lane, as at the start of an id."""
    return read.partition_word(number).decode()
