"""The options of a new group, by the names in HTTP queries.

from=latest  ephemeral=true  idle=60
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from miniqueue.core.options.consume import parse_switch
from miniqueue.core.options.durations import SECONDS_RULE, parse_seconds
from miniqueue.core.options.start import Edge, Start, parse_start
from miniqueue.core.settings.fields import MAX_GROUP_IDLE_SECONDS
from miniqueue.errors import InvalidDelayError

#: How long an ephemeral group waits for its next consumer by default: time for a worker to connect again.
EPHEMERAL_SECONDS: Final = 5.0
#: Minimum time without a reader after which a group that is not ephemeral ends.
MIN_IDLE_SECONDS: Final = 1.0
#: The settings of a group that has none of its own.
NOTHING_OWN: Final[Mapping[str, float | None]] = MappingProxyType({})


class GroupOptions(NamedTuple):
    """The options of a new group.

    Attributes:
      start: where it begins to read.
      is_ephemeral: whether it ends with its last consumer.
      idle_seconds: after this time without a reader it ends; None: as the topic says, or `EPHEMERAL_SECONDS`.
    """

    start: Start = Edge.EARLIEST
    is_ephemeral: bool = False
    idle_seconds: float | None = None

    @property
    def own_settings(self) -> Mapping[str, float | None]:
        """The value of the group in each setting of the topic that has values by group."""
        if self.is_ephemeral:
            return {"ephemeral_groups": EPHEMERAL_SECONDS if self.idle_seconds is None else self.idle_seconds}
        return NOTHING_OWN if self.idle_seconds is None else {"idle_groups": self.idle_seconds}


def parse_group_options(options: Mapping[str, bytes]) -> GroupOptions:
    """Parse options; other names are ignored. Raises InvalidOptionError, InvalidDelayError or RequestError."""
    start = parse_start(options["from"]) if "from" in options else Edge.EARLIEST
    is_ephemeral = parse_switch("ephemeral", options)
    idle_seconds = None
    if "idle" in options:
        idle_seconds = parse_seconds(options["idle"].decode("utf-8", "replace"))
        minimum = 0.0 if is_ephemeral else MIN_IDLE_SECONDS
        if not minimum <= idle_seconds <= MAX_GROUP_IDLE_SECONDS:
            limits = f"from {minimum:g} to {MAX_GROUP_IDLE_SECONDS:.0f}"
            raise InvalidDelayError(f"the idle time of a group is {SECONDS_RULE} {limits}")
    return GroupOptions(start, is_ephemeral, idle_seconds)
