"""Checks the unique keys of a topic against its messages: each belongs to one that waits, which knows it too.

What waits with a key is noted as the walk comes to it; whether a message of a log is settled is known when all were.
"""

from collections.abc import Callable

from miniqueue.storage import dedup_keys
from miniqueue.tools.problems import Problems

#: Whether a message waits, by its partition and number.
Waits = Callable[[int, int], bool]


class UniqueAudit:
    """The unique keys of one topic, for one walk."""

    def __init__(self, topic_id: int, problems: Problems) -> None:
        self._topic_id = topic_id
        self._problems = problems
        self._stored: dict[bytes, bytes] = {}
        self._waiting: dict[bytes, set[bytes]] = {}
        self._in_logs: list[tuple[bytes, bytes, int, int]] = []

    def note(self, key: bytes, message_id: bytes) -> None:
        """Take a message that waits with a key; one without comes with b""."""
        if key:
            self._waiting.setdefault(key, set()).add(message_id)

    def note_in_log(self, key: bytes, message_id: bytes, partition: int, seq: int) -> None:
        """Take a message of a log, which may be settled."""
        if key:
            self._in_logs.append((key, message_id, partition, seq))

    def take(self, key: bytes, message_id: bytes | None) -> None:
        """Take what is stored of a key; None when it could not be read."""
        if message_id is not None:
            self._stored[key] = message_id

    def finish(self, waits: Waits, *, is_strict: bool) -> None:
        """Compare the two, when everything was taken.

        A group that was moved back may have messages again whose keys are free, or those of others: then not strictly.
        """
        for key, message_id, partition, seq in self._in_logs:
            if waits(partition, seq):
                self.note(key, message_id)
        for key in sorted(self._stored.keys() | self._waiting.keys()):
            stored, waiting = self._stored.get(key), self._waiting.get(key, set())
            if waiting != {stored} and (is_strict or (stored is not None and stored not in waiting)):
                self._problems.add(self._wrong(key), dedup_keys.unique(self._topic_id, key))

    def _wrong(self, key: bytes) -> str:
        owner = self._stored.get(key, b"nobody").decode("ascii", "replace")
        waiting = b", ".join(sorted(self._waiting.get(key, set()))) or b"none"
        return f"the unique key belongs to {owner}, but of the messages that wait {waiting.decode()} have it"
