"""Groups as clients see them, on both protocols."""

from collections.abc import Mapping

from miniqueue.broker.group_figures import GroupFigures
from miniqueue.core import read_options
from miniqueue.core.message_id import format_message_id
from miniqueue.wire.resp_replies import Value


def shown_group(figures: GroupFigures) -> Mapping[Value, Value]:
    """Return what a group is, by name.

    Its positions are ids: of the first message of each partition that it has not settled. Partitions are named as in
    ids.
    """
    position = [format_message_id(*place).decode() for place in sorted(figures.position.items())]
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
    """Return the name of a partition, or lane, as ids begin."""
    return read_options.partition_word(number).decode()
