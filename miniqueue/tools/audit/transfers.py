"""Checks the messages on their way between shards: those that are sent, and what has arrived."""

from miniqueue.core.message import attributes
from miniqueue.core.message.names import check_topic
from miniqueue.errors import CorruptionError, FormatVersionError, InvalidTopicError
from miniqueue.storage.format import transfers, values
from miniqueue.storage.format.keys import Parts
from miniqueue.tools.audit.problems import Problems


class TransferAudit:
    """Check of the transfers of a store, in key order.

    Attributes:
      topics: the topics to which messages are on their way.
    """

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self.topics: set[bytes] = set()
        self._last_key = b""

    def take_transfer(self, parts: Parts, key: bytes, value: bytes) -> None:
        """Check a transfer."""
        self._last_key, self._last_number = key, parts.order
        try:
            transfer = transfers.decode_transfer(value)
            check_topic(transfer.topic)
            attributes.decode(transfer.attributes)
        except (CorruptionError, FormatVersionError) as exc:
            self._problems.add(str(exc), key)
        except InvalidTopicError:
            self._problems.add("no topic can have the name that it goes to", key)
        else:
            self.topics.add(transfer.topic)

    def take_sent(self, key: bytes, value: bytes) -> None:
        """Check the highest number that was used: the transfers come before it."""
        try:
            number = values.decode_number(value)
        except (CorruptionError, FormatVersionError) as exc:
            self._problems.add(str(exc), key)
        else:
            if self._last_key and number < self._last_number:
                self._problems.add(f"is {number}, but transfer {self._last_number} exists", key)
        self._last_key = b""

    def take_received(self, key: bytes, value: bytes) -> None:
        """Check what has arrived from another shard."""
        try:
            transfers.decode_received(value)
        except (CorruptionError, FormatVersionError) as exc:
            self._problems.add(str(exc), key)

    def finish(self) -> None:
        """Report that the highest number is missing."""
        if self._last_key:
            self._problems.add("the highest number that was used is missing", self._last_key)
