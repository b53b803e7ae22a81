"""Events: what happens in the broker, so that parts made first need not know the parts made later.

    restored        memory was filled from the store, at startup or after a fault; `changed` follows for each topic
    changed         a topic was created, or its settings, partitions, or groups have changed
    woken           a topic at rest has its partitions and groups again; nothing else of it has changed
    readable        a topic may have messages to deliver: committed, loaded, or no longer held back or paused
    loaded          a page of a topic's messages was read from the store, as in every few MiB of a backlog
    before_commit   the next commit is about to begin, and some topics are over their limits
    freed           a client does not use more memory than it may anymore

Handlers are called in the order in which they were connected. A handler of `changed` must never deliver messages:
the event can occur in the middle of a delivery, when an expired message becomes a dead letter and a partition is made
for it. So the code that raises `changed` raises `readable` later, or requests a commit that does.
"""

from collections.abc import Awaitable, Callable, Sequence

from miniqueue.broker.model.topic import Topic
from miniqueue.broker.stored.opening import StoreContent


class Events:
    """Calls the handlers of each event; no event may occur before `connect`.

    Attributes:
      readable: the only handler of this event. It is called for each commit, and a loop over several handlers would
        often cost more than the handlers themselves.
      loaded: the only handler of this event.
      before_commit: the only handler of this event; it does not raise.
    """

    __slots__ = ("_changed", "_freed", "_restored", "_woken", "before_commit", "loaded", "readable")

    readable: Callable[[Topic], None]
    loaded: Callable[[Topic], None]
    before_commit: Callable[[], Awaitable[None]]

    def __init__(self) -> None:
        self._restored: Sequence[Callable[[StoreContent], None]] = ()
        self._changed: Sequence[Callable[[Topic], None]] = ()
        self._woken: Sequence[Callable[[Topic], None]] = ()

    def connect(
        self,
        *,
        restored: Sequence[Callable[[StoreContent], None]],
        changed: Sequence[Callable[[Topic], None]],
        unless_woken: Sequence[Callable[[Topic], None]],
        readable: Callable[[Topic], None],
        loaded: Callable[[Topic], None],
        before_commit: Callable[[], Awaitable[None]],
        freed: Callable[[], None],
    ) -> None:
        """Set the handlers of all events, before the first event occurs.

        `woken` has those of `changed`, without those of `unless_woken`: they look for what is in no topic at rest.
        """
        self._restored = restored
        self._changed = changed
        self._woken = [handle for handle in changed if handle not in unless_woken]
        self.readable = readable
        self.loaded = loaded
        self.before_commit = before_commit
        self._freed = freed

    def restored(self, content: StoreContent) -> None:
        """Pass the content of the store to all parts."""
        for handle in self._restored:
            handle(content)

    def changed(self, topic: Topic) -> None:
        """Apply the current settings, partitions, and groups of `topic` in all parts."""
        for handle in self._changed:
            handle(topic)

    def woken(self, topic: Topic) -> None:
        """Apply the settings, partitions, and groups that `topic` has again."""
        for handle in self._woken:
            handle(topic)

    def freed(self) -> None:
        """Serve those that wait for memory."""
        self._freed()
