"""Wakes wide topics that are at rest in turns, before what needs them goes on; `model.rest` says what wide is.

    a command, request, or tick names topics ─▶ `named` ─ none of them is wide and at rest ──────────▶ it goes on
                                                  └ some ─▶ it waits for `wake` ─ all are awake ─┘

While no wide topic is at rest, `at_rest` is empty, and callers look no further. Code that does not ask may use the
topic, too: it wakes at once then, and what was made of it in turns is dropped, as it is if the topic is deleted, or
read from the store again. If a caller leaves in the middle, nothing was done.
"""

import asyncio
from collections.abc import Collection, Iterable
from operator import methodcaller
from typing import Final

from miniqueue.broker.model.topic import Topic
from miniqueue.broker.runtime.share import TimeShare
from miniqueue.broker.stored.opening import StoreContent
from miniqueue.core.message.parts import whole_of

_is_pattern: Final = methodcaller("endswith", b"*")


class Waking:
    """Knows the wide topics that are at rest.

    Args:
      share: cuts the work into slices.

    Attributes:
      at_rest: these topics by name, and some that were deleted since. Those that are parts of a spread topic are below
        the name of the whole, too.
    """

    def __init__(self, share: TimeShare) -> None:
        self.at_rest: dict[bytes, dict[bytes, Topic]] = {}
        self._share = share
        self._lock = asyncio.Lock()  # so that what is made apart from topics is never much

    def restored(self, _content: StoreContent) -> None:
        """Forget all topics: they have been read from the store, and `changed` is called for each."""
        self.at_rest.clear()

    def changed(self, topic: Topic) -> None:
        """Note whether a topic is wide and at rest."""
        if topic.at_rest is not None and topic.at_rest.is_wide:
            for name in {topic.name, whole_of(topic.name)}:
                self.at_rest.setdefault(name, {})[topic.name] = topic
        elif self.at_rest:
            self._forget(topic.name)

    def named(self, words: Collection[bytes]) -> list[Topic]:
        """Return the wide topics at rest whose names are among some words, or fit patterns among them."""
        names = self.at_rest.keys() & words
        if any(map(_is_pattern, words)):
            beginnings = tuple(word[:-1] for word in words if word.endswith(b"*"))
            names.update(name for name in self.at_rest if name.startswith(beginnings))
        topics = {name: topic for each in names for name, topic in self.at_rest[each].items()}
        for name, topic in topics.items():
            if topic.at_rest is None:  # it was deleted
                self._forget(name)
        return [topic for topic in topics.values() if topic.at_rest is not None]

    def _forget(self, name: bytes) -> None:
        for key in {name, whole_of(name)}:
            if (below := self.at_rest.get(key)) is not None:
                below.pop(name, None)
                if not below:
                    del self.at_rest[key]

    async def wake_named(self, words: Collection[bytes]) -> None:
        """Return when the topics of some names are awake."""
        if self.at_rest and (topics := self.named(words)):
            await self.wake(topics)

    async def wake(self, topics: Iterable[Topic]) -> None:
        """Return when some topics are awake."""
        for topic in topics:
            async with self._lock:
                while (at_rest := topic.at_rest) is not None and at_rest.is_wide:
                    await self._share.finish(at_rest.coming_back(topic))
