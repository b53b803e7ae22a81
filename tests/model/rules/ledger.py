"""Holds a broker to what it has answered, whatever the acts were: pure, no I/O, no second broker.

    ask ─▶ Op ─▶ accept | refuse | lose          `deliver` judges each message that comes, `settled` each receipt
    crash, stop                                  every lease is over; what was answered and not committed is open
    lost                                         messages that must be there, in the end

What must hold, of every message and in every group: it was published; nobody else holds it; it is not done; its time
has come and is not over; it stands where it may, under the id that it was given, with counts that can be; what has the
same key and is older is done. A dedup id and a unique key stand for one message. What is sure and not done, is there.
"""

from tests.model.rules.traces import Traces


class Ledger(Traces):
    """All that is known; arguments as of `Stock`."""
