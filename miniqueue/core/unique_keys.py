"""Keys of which a topic has one message at a time: what has changed of them since the store was last asked.

    publish with a key ─▶ put ──┐                         ┌─▶ find: the messages that have the key
    the message leaves ─▶ free ─┴▶ changed ─cut─▶ writing ┘

The store has the keys themselves, each with the message that has it, so that memory does not grow with the backlog.
What is known of a key here is newer than what the store says; of every other key the store is right. A message that
leaves gives up its own claim and never that of another: where it had expired, or was settled before, another one may
have the key by now.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from miniqueue.core import attributes
from miniqueue.core.message_id import format_message_id

#: Messages by their ids, and when each expires: since 1970, 0 for never; None where it has the key no more.
Claims = dict[bytes, int | None]

_NOBODY: Final[Mapping[bytes, int | None]] = {}


class UniqueKeys:
    """The keys of one topic.

    Attributes:
      changed: what the next commit writes, by key.
      writing: what the two before it wrote, the older one first; of these the older one may still be under way as well.
    """

    __slots__ = ("_looked", "_told", "changed", "writing")

    def __init__(self) -> None:
        self.changed: dict[bytes, Claims] = {}
        self.writing: tuple[Mapping[bytes, Claims], ...] = ()
        self._looked: dict[bytes, Claims] = {}
        self._told: set[bytes] = set()

    def find(self, key: bytes) -> dict[bytes, int] | None:
        """Return the messages that have a key, and when each expires; None when the store must be asked."""
        known = self._looked[key] if key in self._told else self._recent(key)
        found = {message_id: expires_at_ms for message_id, expires_at_ms in known.items() if expires_at_ms is not None}
        return found if found or key in self._told else None

    def is_known(self, key: bytes) -> bool:
        """Whether it is known who has a key, without the store; not where all have expired, for another may have it."""
        recent = self._recent(key).values()
        return key in self._told or any(expires_at_ms == 0 for expires_at_ms in recent)

    def is_new(self, key: bytes, message_id: bytes) -> bool:
        """Whether the next commit will have what is known of a message with a key."""
        return message_id in self.changed.get(key, _NOBODY)

    def put(self, key: bytes, message_id: bytes, expires_at_ms: int) -> None:
        """Give a key to the message of that id, with the next commit."""
        self._change(key, message_id, expires_at_ms)

    def free(self, partition: int, first_seq: int, gone: Iterable[bytes]) -> None:
        """Take their keys from messages that leave the topic with the next commit: those from `first_seq` on.

        `gone` are their attributes, encoded.
        """
        for seq, encoded in enumerate(gone, first_seq):
            if encoded and (key := attributes.unique_key(encoded)):
                self._change(key, format_message_id(partition, seq), None)

    def take(self, key: bytes, message_id: bytes) -> None:
        """Take a key from the message of that id, with the next commit."""
        self._change(key, message_id, None)

    def _change(self, key: bytes, message_id: bytes, expires_at_ms: int | None) -> None:
        self.changed.setdefault(key, {})[message_id] = expires_at_ms
        if key in self._looked:
            self._looked[key][message_id] = expires_at_ms

    def _recent(self, key: bytes) -> Claims:
        recent: Claims = {}
        for changed in (*self.writing, self.changed):
            recent |= changed.get(key, _NOBODY)
        return recent

    def look(self, key: bytes) -> None:
        """Remember what changes of a key from now on, while the store is asked, until `unnote`."""
        self._looked[key] = self._recent(key)

    def note(self, key: bytes, stored: Mapping[bytes, int]) -> None:
        """Keep what the store has said since `look`; what has changed meanwhile is newer."""
        self._looked[key] = {**stored, **self._looked[key]}
        self._told.add(key)

    def unnote(self, key: bytes) -> None:
        """Forget what the store has said."""
        self._looked.pop(key, None)
        self._told.discard(key)

    def cut(self) -> Mapping[bytes, Claims]:
        """Return what the next commit writes; what the second before it has written is in the store by now."""
        changed, self.changed = self.changed, {}
        before = self.writing[-1:]
        self.writing = (*before, changed) if changed or any(before) else ()
        return changed
