"""Groups as clients see them, on both protocols."""

from collections.abc import Mapping

from miniqueue.broker.group_figures import GroupFigures
from miniqueue.core.message_id import format_message_id
from miniqueue.wire.resp_replies import Value


def shown_group(figures: GroupFigures) -> Mapping[Value, Value]:
    """Return what a group is, by name; its positions are ids: of the message that it reads next in each partition."""
    position = [format_message_id(*place).decode() for place in sorted(figures.position.items())]
    members: dict[Value, Value] = dict(figures._asdict().items())
    return members | {"name": figures.name.decode(), "position": position}
