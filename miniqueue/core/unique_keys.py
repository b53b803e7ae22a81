"""Keys of which a topic has one message at a time: what has changed of them since the store was last asked.

    publish with a key ─▶ put ──┐                         ┌─▶ find: the id of the message that has the key
    the message leaves ─▶ free ─┴▶ changed ─cut─▶ writing ┘

The store has the keys themselves, so that memory does not grow with the backlog. What is known of a key here is newer
than what the store says; of every other key the store is right.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from miniqueue.core import attributes

#: In place of the id of a message: no message has the key.
FREE: Final = b""

_NOTHING: Final[Mapping[bytes, bytes]] = {}


class UniqueKeys:
    """The keys of one topic; ids of messages by key.

    Attributes:
      changed: what the next commit writes.
      writing: what the one before wrote.
    """

    __slots__ = ("_looked", "changed", "writing")

    def __init__(self) -> None:
        self.changed: dict[bytes, bytes] = {}
        self.writing: Mapping[bytes, bytes] = _NOTHING
        self._looked: dict[bytes, bytes] = {}

    def find(self, key: bytes) -> bytes | None:
        """Return the id of the message that has a key, `FREE`, or None when the store must be asked."""
        for known in (self.changed, self.writing, self._looked):
            if (message_id := known.get(key)) is not None:
                return message_id
        return None

    def is_new(self, key: bytes) -> bool:
        """Whether the next commit will have what is known of a key."""
        return key in self.changed

    def put(self, key: bytes, message_id: bytes) -> None:
        """Give a key to the message of that id, with the next commit."""
        self._change(key, message_id)

    def free(self, gone: Iterable[bytes]) -> None:
        """Free the keys of messages with these attributes, encoded, which leave the topic with the next commit."""
        for encoded in gone:
            if key := attributes.unique_key(encoded):
                self._change(key, FREE)

    def _change(self, key: bytes, message_id: bytes) -> None:
        self.changed[key] = message_id
        if key in self._looked:
            self._looked[key] = message_id

    def note(self, key: bytes, message_id: bytes) -> None:
        """Keep what the store has said of a key, until `unnote`."""
        self._looked[key] = message_id

    def unnote(self, key: bytes) -> None:
        """Forget what the store has said."""
        self._looked.pop(key, None)

    def cut(self) -> Mapping[bytes, bytes]:
        """Return what the next commit writes; what the one before has written is in the store by now."""
        self.writing = self.changed or _NOTHING
        self.changed = {}
        return self.writing
