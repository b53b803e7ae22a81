"""Groups as both protocols show them."""

from collections.abc import Mapping

from miniqueue.broker.model.views import GroupFigures
from miniqueue.core.message.ids import format_message_id
from miniqueue.core.message.lanes import FIRST_OTHER_LANE
from miniqueue.core.options import read
from miniqueue.wire.resp_replies import Value


def shown_group(figures: GroupFigures) -> Mapping[Value, Value]:
    """Return the properties of a group, by name.

    `position` contains the id of the first unsettled message of each partition. Partitions are named as in ids.
    """
    numbers = sorted(figures.position)
    names = [*map(str, numbers)]  # there may be thousands, and usually without lanes of other priorities
    position = [*map("%d-%d".__mod__, sorted(figures.position.items()))]
    if numbers and numbers[-1] >= FIRST_OTHER_LANE:
        names = [*map(partition_word, numbers)]
        position = [format_message_id(number, figures.position[number]).decode() for number in numbers]
    members: dict[Value, Value] = dict(figures._asdict().items())
    lags: dict[Value, Value] = dict(zip(names, map(figures.lags.__getitem__, numbers), strict=True))
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
