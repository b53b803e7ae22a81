"""Reports to the streams of this process that their spread topic has another number of parts, or none any more.

    TOPIC SET orders spread 16 ─▶ `spreading` ─▶ each shard ─▶ its streams of orders end ─▶ clients subscribe again

A stream has a stream of each part, so that it would never get the messages of new ones.
"""

from collections.abc import Callable

#: Called when the number of parts has changed.
Listener = Callable[[], None]


class Growth:
    """What listens to changes of the parts of spread topics, in this process."""

    def __init__(self) -> None:
        self._listeners: dict[bytes, list[Listener]] = {}

    def add(self, topic: bytes, listener: Listener) -> None:
        """Call a listener, once, when the number of parts changes, unless it is removed before."""
        self._listeners.setdefault(topic, []).append(listener)

    def remove(self, topic: bytes, listener: Listener) -> None:
        """Remove a listener, if it has not been called."""
        listeners = self._listeners.get(topic, [])
        if listener in listeners:
            listeners.remove(listener)
        if not listeners:
            self._listeners.pop(topic, None)

    def report(self, topic: bytes) -> None:
        """Call the listeners of a topic."""
        for listener in self._listeners.pop(topic, []):
            listener()
