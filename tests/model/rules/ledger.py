"""Holds a broker to what it has answered, whatever the acts were: pure, no I/O, no second broker.

    ask ─▶ Op ─▶ accept | refuse | lose          `deliver` judges each message that comes, `settled` each receipt
    crash, stop                                  every lease is over; what was answered and not committed is open
    lost                                         messages that must be there, in the end

What must hold for every message that a group gets: it was published; no other client holds it; it is not settled; it is
due and has not expired; its position, its id, and its counts are possible; older messages with its key are settled. A
dedup id and a unique key stand for one message. Messages that are certain to exist, and not settled, are there.
"""

from tests.model.rules.traces import Traces


class Ledger(Traces):
    """All that is known; arguments as of `Stock`."""
