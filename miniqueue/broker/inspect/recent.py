"""What is made of all topics: once for all who ask at the same time, and with many topics at most once a second."""

from collections.abc import Callable, Collection, Coroutine
from typing import Any, Final, Generic, TypeVar

from miniqueue.broker.runtime.clock import Clock
from miniqueue.broker.runtime.tasks import SharedResult

T = TypeVar("T")

#: With more topics, what is made of them is used for this long: for 10,000 topics the sums take 0.3 s.
MANY_TOPICS: Final = 1000
RECENT_SECONDS: Final = 1.0


class Recent(Generic[T]):
    """Makes the same of all topics for all who ask for it.

    Args:
      topics: the topics.
      clock: measures how old a result is.
    """

    def __init__(self, topics: Collection[object], clock: Clock) -> None:
        self._topics = topics
        self._clock = clock
        self._making: SharedResult[T] = SharedResult()
        self._made: tuple[float, T] | None = None  # when the last call for it came, and the result

    async def get(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return what `make` makes, begun after this call; with many topics, at most `RECENT_SECONDS` before it."""
        now, made = self._clock.monotonic(), self._made
        if made is not None and len(self._topics) > MANY_TOPICS and now < made[0] + RECENT_SECONDS:
            return made[1]
        result = await self._making.get(make)
        self._made = now, result
        return result
