"""Which topics are asked for in a refresh: those that are shown, and others in rotation, at most `MAX_SAMPLED` in all.

    10,000 topics, 25 shown:   refresh 1   the 25, and 475 others
                               refresh 2   the 25, and the next 475; after 21 refreshes all are known

So the cost of a refresh is bounded, and the order of all topics becomes right within seconds. The number of dead
letters of a topic is the length of its topic of dead letters, which its settings name; settings are asked for once,
and now and then again.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import cycle, islice
from typing import Any, Final

from miniqueue.commands.watching.rows import Row, dead_letter_topic, row_of
from miniqueue_client import Client, RefusedError
from miniqueue_client.calls import topics as topic_calls

#: Maximum number of topics that one refresh asks for.
MAX_SAMPLED: Final = 500
#: Refreshes after which the list of topics, and settings, are asked for again.
_LIST_AFTER: Final = 3
_SETTINGS_AFTER: Final = 30
_NOT_SEEN: Final = ("NOTOPIC", "NOPERM")


class Sampler:
    """What is known of the topics of a broker.

    Args:
      client: a client of the broker.
      is_wanted: whether to look at a topic.
      max_sampled: maximum number of topics that one refresh asks for.

    Attributes:
      topics: the topics that exist, sorted.
    """

    def __init__(self, client: Client, is_wanted: Callable[[str], bool], max_sampled: int = MAX_SAMPLED) -> None:
        self.topics: list[str] = []
        self._client = client
        self._is_wanted = is_wanted
        self._max_sampled = max_sampled
        self._all: frozenset[str] = frozenset()
        self._stats: dict[str, Mapping[str, Any] | None] = {}
        self._settings: dict[str, tuple[int, Mapping[str, str] | None]] = {}
        self._refreshes = 0
        self._next = 0

    def refresh(self, shown: Sequence[str] = ()) -> None:
        """Ask for the topics that are shown, and for some of the others; raises ClientError."""
        if self._refreshes % _LIST_AFTER == 0:
            self._list()
        self._refreshes += 1
        wanted = [topic for topic in shown if topic in self._all][: self._max_sampled]
        self._sample(self._with_dead_letters([*wanted, *self._others(wanted)]))

    def refresh_all(self) -> None:
        """Ask for all topics, a bounded number at a time; raises ClientError."""
        self._list()
        self._refreshes += 1
        for start in range(0, len(self.topics), self._max_sampled):
            self._sample(self._with_dead_letters(self.topics[start : start + self._max_sampled]))

    def rows(self) -> list[Row]:
        """Return a row for each topic; of topics that were not asked for yet, only with the name."""
        return [self._row(topic) for topic in self.topics]

    def _list(self) -> None:
        listed = self._client.topics()
        self._all = frozenset(listed)
        self.topics = list(filter(self._is_wanted, listed))
        self._stats = {topic: stats for topic, stats in self._stats.items() if topic in self._all}
        self._settings = {topic: known for topic, known in self._settings.items() if topic in self._all}

    def _others(self, wanted: Sequence[str]) -> list[str]:
        """Return the next topics in rotation."""
        count = min(self._max_sampled - len(wanted), len(self.topics))
        if count <= 0:
            return []
        start = self._next % len(self.topics)
        self._next = start + count
        return list(islice(cycle(self.topics), start, start + count))

    def _with_dead_letters(self, topics: Iterable[str]) -> list[str]:
        """Return the topics, each once, and those of their dead letters that exist."""
        names = list(dict.fromkeys(topics))
        self._read_settings([topic for topic in names if self._is_old(topic)])
        letters = (dead_letter_topic(topic, self._settings[topic][1]) for topic in names)
        return list(dict.fromkeys([*names, *(topic for topic in letters if topic in self._all)]))

    def _is_old(self, topic: str) -> bool:
        known = self._settings.get(topic)
        return known is None or self._refreshes - known[0] >= _SETTINGS_AFTER

    def _read_settings(self, topics: Sequence[str]) -> None:
        results = self._client.execute_all([topic_calls.topic_settings(topic) for topic in topics])
        for topic, result in zip(topics, results, strict=True):
            self._settings[topic] = self._refreshes, _seen(result)

    def _sample(self, topics: Sequence[str]) -> None:
        results = self._client.execute_all([topic_calls.stats(topic) for topic in topics])
        for topic, result in zip(topics, results, strict=True):
            self._stats[topic] = _seen(result)

    def _row(self, topic: str) -> Row:
        row = row_of(topic, self._stats.get(topic))
        if topic not in self._settings:
            return row
        letters = dead_letter_topic(topic, self._settings[topic][1])
        known = self._stats.get(letters)
        dead = 0 if letters not in self._all else None if known is None else known["depth"]
        return {**row, "dead": dead}


def _seen(result: Any) -> Any:  # noqa: ANN401 - a map of texts or of figures
    """Return a result; None if the topic is gone, or the user may not see it. Raises any other refusal."""
    if not isinstance(result, RefusedError):
        return result
    if result.code not in _NOT_SEEN:
        raise result
    return None
