"""Checks the unique keys of a topic: each belongs to a waiting message whose attributes contain the key.

The walk collects the messages with a key; whether a message of a log is settled is known only at the end. A message can
wait without owning the key in its attributes: if it had expired and another message was published with the key, or if
the group was moved back to it.
"""

from collections.abc import Callable
from typing import NamedTuple

from miniqueue.core.message.attributes import expires_at_ms, unique_key
from miniqueue.storage.format import dedup
from miniqueue.tools.audit.problems import Problems

#: Whether a message waits: a function of its partition and sequence number.
Waits = Callable[[int, int], bool]


class _Message(NamedTuple):
    """A message with a unique key; `may_lack`: it may have lost the key."""

    key: bytes
    id: bytes
    may_lack: bool


class UniqueAudit:
    """Check of the unique keys of one topic."""

    def __init__(self, topic_id: int, problems: Problems) -> None:
        self._topic_id = topic_id
        self._problems = problems
        self._owners: dict[bytes, set[bytes]] = {}
        self._waiting: list[_Message] = []
        self._in_logs: list[tuple[_Message, int, int]] = []

    def take_waiting(self, attributes: bytes, message_id: bytes) -> None:
        """Take a waiting message, if its attributes contain a key."""
        if key := unique_key(attributes):
            self._waiting.append(_Message(key, message_id, bool(expires_at_ms(attributes))))

    def take_in_log(self, attributes: bytes, message_id: bytes, partition: int, seq: int) -> None:
        """Take a message of a log; it may be settled."""
        if key := unique_key(attributes):
            self._in_logs.append((_Message(key, message_id, bool(expires_at_ms(attributes))), partition, seq))

    def take(self, key: bytes, message_id: bytes) -> None:
        """Take a stored key and the message that owns it."""
        self._owners.setdefault(key, set()).add(message_id)

    def finish(self, waits: Waits, *, is_strict: bool) -> None:
        """Compare owners and messages, after the last pair; `is_strict`: no waiting message may lack its key."""
        waiting = self._waiting + [message for message, *position in self._in_logs if waits(*position)]
        by_key: dict[bytes, set[bytes]] = {}
        for message in waiting:
            by_key.setdefault(message.key, set()).add(message.id)
        wrong = {key for key, owners in self._owners.items() if not owners <= by_key.get(key, set())}
        if is_strict:
            wrong |= {
                message.key
                for message in waiting
                if not message.may_lack and message.id not in self._owners.get(message.key, ())
            }
        for key in sorted(wrong):
            owner = _listed(self._owners.get(key, set()), "no message")
            others = _listed(by_key.get(key, set()), "none")
            text = f"the unique key belongs to {owner}, but the waiting messages that have it are: {others}"
            self._problems.add(text, dedup.unique(self._topic_id, key, b""))


def _listed(ids: set[bytes], none: str) -> str:
    return b", ".join(sorted(ids)).decode("ascii", "replace") or none
