"""Checks the unique keys of a topic against its messages: each belongs to one that waits, which knows it too.

What waits with a key is noted as the walk comes to it; whether a message of a log is settled is known when all were. A
message may wait with a key that it has no more: when it had expired and another one was published with it, or when the
group went back to it.
"""

from collections.abc import Callable
from typing import NamedTuple

from miniqueue.core.attributes import expires_at_ms, unique_key
from miniqueue.storage import dedup_keys
from miniqueue.tools.problems import Problems

#: Whether a message waits, by its partition and number.
Waits = Callable[[int, int], bool]


class _Message(NamedTuple):
    """One with a unique key; `may_lack` says that it may have the key no more."""

    key: bytes
    id: bytes
    may_lack: bool


class UniqueAudit:
    """The unique keys of one topic, for one walk."""

    def __init__(self, topic_id: int, problems: Problems) -> None:
        self._topic_id = topic_id
        self._problems = problems
        self._owners: dict[bytes, set[bytes]] = {}
        self._waiting: list[_Message] = []
        self._in_logs: list[tuple[_Message, int, int]] = []

    def note(self, attributes: bytes, message_id: bytes) -> None:
        """Take a message that waits, with its attributes, if they have a key."""
        if key := unique_key(attributes):
            self._waiting.append(_Message(key, message_id, bool(expires_at_ms(attributes))))

    def note_in_log(self, attributes: bytes, message_id: bytes, partition: int, seq: int) -> None:
        """Take a message of a log, which may be settled."""
        if key := unique_key(attributes):
            self._in_logs.append((_Message(key, message_id, bool(expires_at_ms(attributes))), partition, seq))

    def take(self, key: bytes, message_id: bytes) -> None:
        """Take what is stored: a message has a key."""
        self._owners.setdefault(key, set()).add(message_id)

    def finish(self, waits: Waits, *, is_strict: bool) -> None:
        """Compare the two, when everything was taken; not strictly when any may have its key no more."""
        waiting = self._waiting + [message for message, *place in self._in_logs if waits(*place)]
        by_key: dict[bytes, set[bytes]] = {}
        for message in waiting:
            by_key.setdefault(message.key, set()).add(message.id)
        wrong = {key for key, owners in self._owners.items() if not owners <= by_key.get(key, set())}
        if is_strict:
            wrong |= {one.key for one in waiting if not one.may_lack and one.id not in self._owners.get(one.key, ())}
        for key in sorted(wrong):
            owner = _listed(self._owners.get(key, set()), "nobody")
            others = _listed(by_key.get(key, set()), "none")
            text = f"the unique key belongs to {owner}, but of the messages that wait {others} have it"
            self._problems.add(text, dedup_keys.unique(self._topic_id, key, b""))


def _listed(ids: set[bytes], none: str) -> str:
    return b", ".join(sorted(ids)).decode("ascii", "replace") or none
