"""The ages of many topics, of which each pass over the topics reads a few.

    never known  ─▶ read, at most `MAX_UNKNOWN` in a pass
    known        ─▶ read again in turn, `KNOWN_IN_TURN` in a pass; until then what any reader found last

A settle makes the oldest message of a topic younger, so what is known is normally a bound. A message can also become
older than that, for example by a seek of a group: then the bound is wrong until the topic is read again.
"""

from contextlib import suppress
from itertools import islice
from typing import Final

from miniqueue.broker.engine.engine import Engine
from miniqueue.broker.inspect.ages import oldest_at_ms
from miniqueue.broker.model.topic import Topic
from miniqueue.errors import MiniqueueError

#: Maximum numbers of topics that one pass reads: whose age is not known, and whose age is.
MAX_UNKNOWN: Final = 100
KNOWN_IN_TURN: Final = 20
#: Estimated memory for a topic.
_BYTES_EACH: Final = 150


class KnownAges:
    """When the oldest messages of topics were published, as far as it is known."""

    def __init__(self) -> None:
        self._at_ms: dict[int, int] = {}  # times by the id of the topic, in the order in which they were read
        self._seen: set[int] = set()
        self._due: set[int] = set()
        self._read_count = 0

    @property
    def size_bytes(self) -> int:
        """Estimated memory."""
        return _BYTES_EACH * len(self._at_ms)

    def begin_pass(self) -> None:
        """Forget the topics that the last pass did not ask for, and choose those whose age is read again."""
        self._at_ms = {topic_id: at_ms for topic_id, at_ms in self._at_ms.items() if topic_id in self._seen}
        self._seen = set()
        self._due = set(islice(self._at_ms, KNOWN_IN_TURN))
        self._read_count = 0

    async def of(self, engine: Engine, topic: Topic, topic_id: int) -> int | None:
        """Return when the oldest message of a topic was published, in ms since 1970; None if it is not known yet."""
        known = self._at_ms.get(topic_id)
        if topic_id in self._due or (known is None and self._read_count < MAX_UNKNOWN):
            self._read_count += known is None
            self._at_ms.pop(topic_id, None)
            with suppress(MiniqueueError):  # it is reported elsewhere
                known = await oldest_at_ms(engine, topic)
        elif topic.pulse is not None and topic.pulse.oldest is not None and topic.pulse.oldest[1] is not None:
            known = topic.pulse.oldest[1]
        if known is not None:
            self._seen.add(topic_id)
            self._at_ms[topic_id] = known
        return known
