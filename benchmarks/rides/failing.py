"""Which rides fail, and how: by their number, so that it is known in the end what must have become of each."""

from enum import Enum
from typing import Final

#: Deliveries until a ride that fails each time becomes a dead letter.
MAX_DELIVERIES: Final = 5
#: Why a worker gives a ride up.
MISSING: Final = "the bill is missing"


class Fate(Enum):
    """What becomes of a ride."""

    DONE = "done"
    DONE_LATER = "done, but not at the first delivery"
    REJECTED = "given up by the worker"
    POISONOUS = "fails at each delivery, and is given up by the broker"

    @property
    def is_dead(self) -> bool:
        """Whether it becomes a dead letter."""
        return self in (Fate.REJECTED, Fate.POISONOUS)


def fate_of(ride_id: int) -> Fate:
    """Return what becomes of a ride; of 10,000, about 20 are nacked, one is rejected and one is poisonous."""
    if ride_id % 9973 == 17:
        return Fate.REJECTED
    if ride_id % 10007 == 4711:
        return Fate.POISONOUS
    return Fate.DONE_LATER if ride_id % 499 == 1 else Fate.DONE
