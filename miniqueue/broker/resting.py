"""The first part of a stop: nothing comes in or goes out any more, and what consumers hold they may still settle.

    begin ─▶ publishes, receives: DrainingError; who waits gets nothing ─▶ leased_count falls ─▶ the broker stops

Nothing of it is stored: after the stop everything is as if it had not been.
"""

from collections.abc import Mapping

from miniqueue.broker.admission import Admission
from miniqueue.broker.pausing import Pauser
from miniqueue.broker.topic import Topic


class Resting:
    """Brings a broker to rest.

    Args:
      topics: by name.
      admission: says that the broker stops.
      pauser: has nothing handed out then.
    """

    def __init__(self, topics: Mapping[bytes, Topic], admission: Admission, pauser: Pauser) -> None:
        self._topics = topics
        self._admission = admission
        self._pauser = pauser

    def begin(self) -> None:
        """Take and hand out nothing more."""
        self._admission.rest()
        self._pauser.apply(list(self._topics.values()))

    @property
    def leased_count(self) -> int:
        """How many messages consumers hold."""
        return sum(cursor.leased_count for topic in self._topics.values() for cursor in topic.cursors)
