"""Unique keys: a topic has at most one message with each. Contains what the store does not have yet.

    publish with a key ─▶ put ──┐                         ┌─▶ find: the messages that claim the key
    the message leaves ─▶ free ─┴▶ changed ─cut─▶ writing ┘

The store contains the claims: each key with its message. So memory does not grow with the backlog. Claims in memory
are newer than those in the store; a key without claims in memory is as the store says.

A claim ends when its message leaves the topic, or when the message's own time to live (TTL) has elapsed and it is not
leased; the expired message may still be there. A message that expires by the TTL of its topic keeps its key until it
is removed. A message that leaves removes only its own claim: if it had expired, another message may have the key.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from miniqueue.core.message.attributes import unique_key
from miniqueue.core.message.ids import format_message_id

#: The expiry times of messages by their ids: in ms since 1970, 0 for never; None if the message has left.
Claims = dict[bytes, int | None]

_NO_CLAIMS: Final[Mapping[bytes, int | None]] = {}


class UniqueKeys:
    """The unique keys of one topic.

    Attributes:
      changed: the claims that the next commit writes, by key.
      writing: the claims of the two commits before it, the older one first; both may still be in progress.
    """

    __slots__ = ("_looked", "_read", "changed", "writing")

    def __init__(self) -> None:
        self.changed: dict[bytes, Claims] = {}
        self.writing: tuple[Mapping[bytes, Claims], ...] = ()
        self._looked: dict[bytes, Claims] = {}  # keys between `look` and `unnote`
        self._read: set[bytes] = set()  # keys between `note` and `unnote`

    @property
    def is_used(self) -> bool:
        """Whether anything is in memory: a claim that the store does not have yet, or a look at the store."""
        return bool(self.changed or any(self.writing) or self._looked)

    def find(self, key: bytes) -> dict[bytes, int] | None:
        """Return the messages that claim a key, with their expiry times; None if the store must be read first."""
        known = self._looked[key] if key in self._read else self._recent(key)
        claims = {message_id: expires_at_ms for message_id, expires_at_ms in known.items() if expires_at_ms is not None}
        return claims if claims or key in self._read else None

    def is_known(self, key: bytes) -> bool:
        """Whether the claims of a key are known without the store.

        Claims that expire do not count: another message may have the key.
        """
        recent = self._recent(key).values()
        return key in self._read or any(expires_at_ms == 0 for expires_at_ms in recent)

    def is_read(self, key: bytes) -> bool:
        """Whether the claims of a key are known until `unnote`, whatever leaves the topic."""
        return key in self._read

    def is_new(self, key: bytes, message_id: bytes) -> bool:
        """Whether the claim of a message is not committed yet."""
        return message_id in self.changed.get(key, _NO_CLAIMS)

    def put(self, key: bytes, message_id: bytes, expires_at_ms: int) -> None:
        """Add the claim of a message to the next commit."""
        self._change(key, message_id, expires_at_ms)

    def free(self, partition: int, first_seq: int, attributes: Iterable[bytes]) -> None:
        """Remove the claims of messages that leave the topic with the next commit.

        The messages have the numbers from `first_seq` on, and these encoded attributes.
        """
        for seq, encoded in enumerate(attributes, first_seq):
            if encoded and (key := unique_key(encoded)):
                self._change(key, format_message_id(partition, seq), None)

    def take(self, key: bytes, message_id: bytes) -> None:
        """Remove the claim of a message with the next commit."""
        self._change(key, message_id, None)

    def _change(self, key: bytes, message_id: bytes, expires_at_ms: int | None) -> None:
        self.changed.setdefault(key, {})[message_id] = expires_at_ms
        if key in self._looked:
            self._looked[key][message_id] = expires_at_ms

    def _recent(self, key: bytes) -> Claims:
        recent: Claims = {}
        for changed in (*self.writing, self.changed):
            recent |= changed.get(key, _NO_CLAIMS)
        return recent

    def look(self, key: bytes) -> None:
        """Remember changes of a key from now on until `unnote`, while the caller reads the store."""
        self._looked[key] = self._recent(key)

    def note(self, key: bytes, stored: Mapping[bytes, int]) -> None:
        """Merge the claims that the caller has read; claims that have changed since `look` are newer."""
        self._looked[key] = {**stored, **self._looked[key]}
        self._read.add(key)

    def unnote(self, key: bytes) -> None:
        """Forget the claims that were read."""
        self._looked.pop(key, None)
        self._read.discard(key)

    def cut(self) -> Mapping[bytes, Claims]:
        """Return the claims that the next commit writes; the store contains those of the second commit before it."""
        changed, self.changed = self.changed, {}
        before = self.writing[-1:]
        self.writing = (*before, changed) if changed or any(before) else ()
        return changed
