"""The work of a transaction, which is limited: all of it is done in one event-loop iteration, of at most 20 ms.

A unit is about 100 bytecode instructions. The numbers are measured: `tests/budget/test_transactions_cost.py` has a
transaction of each kind that is as long as possible.
"""

from collections.abc import Mapping
from typing import Final

from miniqueue.broker.leases.leases import Found
from miniqueue.broker.transactions.acts import Act, Publish, PublishWith, Settle, Way
from miniqueue.errors import LimitReachedError

#: Maximum work of a transaction.
MAX_WORK: Final = 2_000
#: Work of publishes that are joined, of settles that are joined, and of each act among them.
_PUBLISH: Final = 5
_SETTLE: Final = 8
_ACT: Final = 3.3
#: Work of a message: without options, in a batch with keys, with more options, for each header, and if it is published
#: alone; and of replacing another message.
_MESSAGE: Final = 0.08
_BY_KEY: Final = 1.6
_WITH_OPTIONS: Final = 3
_HEADER: Final = 3
_ALONE: Final = 12
_REPLACING: Final = 46
#: Work of creating a topic, and a lane in each group.
NEW_TOPIC: Final = 72
NEW_LANE: Final = 30
#: Work of each lease whose messages are settled, of cutting a lease, and, by the way of settling, of each message.
_LEASE: Final = 4
_CUT: Final = 6
_SETTLED: Final[Mapping[Way, float]] = {
    Way.ACK: 0.01,
    Way.EXTEND: 1.5,
    Way.NACK: 5,
    Way.BACK: 5,
    Way.DACK: 6,
    Way.REJECT: 15,
}


class TooMuchWorkError(LimitReachedError):
    """The transaction is too much work for one commit; send several transactions.

    Args:
      fitting_share: the part of the last addition that would have fitted, 0 to 1.
    """

    def __init__(self, fitting_share: float) -> None:
        super().__init__("too much work for one commit; send several transactions")
        self.fitting_share = fitting_share


class Work:
    """Adds up the work of one transaction.

    Attributes:
      units: the work that was added.
    """

    def __init__(self, units: float = 0.0) -> None:
        self.units = units

    def add(self, units: float) -> None:
        """Add work; raises TooMuchWorkError."""
        if self.units + units > MAX_WORK:
            raise TooMuchWorkError((MAX_WORK - self.units) / units)
        self.units += units

    def max_lease_count(self) -> int:
        """Return the number of leases whose work can still be added."""
        return int((MAX_WORK - self.units) / _LEASE)


def work_of(act: Act, act_count: int) -> float:
    """Return the work of an act that stands for `act_count` acts, without that of new topics, lanes, and leases."""
    if isinstance(act, Settle):
        return _SETTLE + _ACT * act_count + _SETTLED[act.way] * len(act.receipts)
    units = _PUBLISH + _ACT * act_count
    if isinstance(act, PublishWith):
        replacing = _REPLACING if act.options.is_replacing else 0
        return units + _ALONE + replacing + _HEADER * len(act.options.headers)
    if isinstance(act, Publish):
        return units + _MESSAGE * len(act.payloads)
    units += (_BY_KEY if act.each.keys else _MESSAGE) * len(act.payloads)
    return units + sum(_WITH_OPTIONS + _HEADER * len(options.headers) for options in act.each.others.values())


def work_of_leases(leased: Found) -> float:
    """Return the work of the leases of the messages that are settled."""
    return _LEASE * leased.lease_count + _CUT * leased.cut_count
