"""The copy of all chosen topics: round after round, a page of each partition that has something to copy.

    refresh ─▶ list the topics of the source, prepare those that are new
    round   ─▶ look at the partitions of all topics ─▶ a step for each that is behind ─▶ now and then release

Errors that pass, such as a broker that restarts, end a round; the next round continues. `passes` says which do.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from miniqueue.commands.copying.markers import MARKER_TOPIC, CopyName
from miniqueue.commands.copying.topic_copy import TopicCopy, never_idle, positions_of_group
from miniqueue.errors import ConfigError
from miniqueue_client import Bounds, Client, ClientError, RefusedError
from miniqueue_client.calls import logs
from miniqueue_client.calls.errors import UntrustedError, is_passing
from miniqueue_client.calls.groups import Start

#: Settings that a new topic of the target does not get from the source: states of a moment, and of the other broker.
_NOT_COPIED: Final = frozenset(
    {
        "owner",
        "default_group",
        "spread_before",
        *("paused_in_until_ms", "paused_out_until_ms"),
        *("idle_groups", "ephemeral_groups", "paused_groups"),
    }
)
#: Refusals that pass without help: the target has no room for now, or is paused; or a topic was deleted during a round,
#: and the next round leaves it out.
_PASSING_CODES: Final = frozenset({"LIMIT", "FULL", "PAUSED", "UNAVAILABLE", "NOTOPIC"})
#: Topics whose partitions are asked for at a time.
_AT_ONCE: Final = 500
_RELEASE_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Choices:
    """What to copy, and how.

    Attributes:
      topics: names of topics, which must exist.
      patterns: patterns of names, in which `*` stands for any text.
      name: the name of the copy, and of its group at the source.
      start: where to begin in topics that were not copied before.
      start_of_group: the group at whose position to begin; "": at `start`.
      creates: whether topics that the target does not have get the settings of the source.
    """

    topics: Sequence[str] = ()
    patterns: Sequence[str] = ()
    name: str = "copy"
    start: Start = "earliest"
    start_of_group: str = ""
    creates: bool = True


def passes(error: ClientError) -> bool:
    """Whether what failed may work later, without help."""
    if isinstance(error, UntrustedError):
        return False
    return is_passing(error) or (isinstance(error, RefusedError) and error.code in _PASSING_CODES)


class Copying:
    """The copy of all chosen topics.

    Args:
      source: a client of the broker that has the topics.
      target: a client of the broker that gets them.
      choices: what to copy.
      now_ms: returns the time in ms since 1970.
      monotonic: returns a time in seconds that is never set back.

    Attributes:
      copies: the copies of single topics, by topic.
    """

    def __init__(
        self,
        source: Client,
        target: Client,
        choices: Choices,
        now_ms: Callable[[], int],
        monotonic: Callable[[], float],
    ) -> None:
        self.copies: dict[str, TopicCopy] = {}
        self._source = source
        self._target = target
        self._choices = choices
        self._now_ms = now_ms
        self._monotonic = monotonic
        self._released_at = monotonic()

    @property
    def lag(self) -> int:
        """Number of messages that are to be copied, as of the last round."""
        return sum(copy.lag for copy in self.copies.values())

    @property
    def copied_count(self) -> int:
        """Number of messages that were copied."""
        return sum(copy.copied_count for copy in self.copies.values())

    @property
    def remaining(self) -> int:
        """Number of messages that are to be copied of those that the topics contained at the first survey."""
        return sum(copy.remaining for copy in self.copies.values())

    def ping(self) -> None:
        """Check that both brokers reply; raises ClientError."""
        self._source.ping()
        self._target.ping()

    def refresh(self) -> None:
        """Begin to copy the chosen topics that are not copied yet; raises ClientError, or ConfigError for a name."""
        existing = self._source.topics()
        if missing := set(self._choices.topics) - set(existing) - self.copies.keys():
            raise ConfigError([f"the source has no topic {name}" for name in sorted(missing)])
        for topic in existing:
            if topic not in self.copies and self._is_chosen(topic):
                self.copies[topic] = self._begun(topic)

    def survey(self) -> None:
        """Count the messages that are to be copied; raises ClientError."""
        for topic, bounds in self._bounds():
            self.copies[topic].look(bounds)

    def round(self) -> int:
        """Copy at most a page of each partition; return the number of messages. Raises ClientError."""
        count = 0
        for topic, bounds in self._bounds():
            copy = self.copies[topic]
            for each in copy.look(bounds):
                count += copy.step(each.partition)
                self._release_if_due()
        if not count:
            self.release()
        return count

    def release(self) -> None:
        """Allow the source to delete what is copied; raises ClientError."""
        self._released_at = self._monotonic()
        for copy in self.copies.values():
            copy.release()

    def end(self) -> None:
        """Delete the groups at the source; raises ClientError."""
        for copy in self.copies.values():
            copy.end()

    def _is_chosen(self, topic: str) -> bool:
        if topic == MARKER_TOPIC:
            return False
        return topic in self._choices.topics or any(fnmatchcase(topic, each) for each in self._choices.patterns)

    def _begun(self, topic: str) -> TopicCopy:
        settings = self._source.topic_settings(topic)
        self._prepare_target(topic, settings)
        name = CopyName(str(self._source.address), topic, self._choices.name)
        copy = TopicCopy(self._source, self._target, name, self._now_ms)
        copy.begin(self._start(topic), idle_seconds=never_idle(settings))
        return copy

    def _start(self, topic: str) -> Start:
        if not (group := self._choices.start_of_group):
            return self._choices.start
        if (start := positions_of_group(self._source.groups(topic), group)) is None:
            raise ConfigError([f"topic {topic} of the source has no group {group}"])
        return start

    def _prepare_target(self, topic: str, settings: dict[str, str]) -> None:
        """Create a topic of the target with the settings of the source; check that it accepts dedup ids."""
        wanted = {
            name: text
            for name, text in settings.items()
            if name not in _NOT_COPIED and not (name == "dedup_window_seconds" and text == "0")
        }
        try:
            present = self._target.topic_settings(topic)
        except RefusedError as exc:
            if exc.code == "NOTOPIC" and self._choices.creates:
                self._target.create_topic(topic, **wanted)
            if exc.code not in ("NOTOPIC", "NOPERM"):
                raise
            return
        if present.get("dedup_window_seconds") == "0":
            raise ConfigError(
                [f"topic {topic} of the target accepts no dedup ids, which a copy needs; set dedup_window_seconds"]
            )

    def _bounds(self) -> Iterator[tuple[str, list[Bounds]]]:
        """Yield the partitions of each topic; end the copy of a topic that was deleted."""
        topics = list(self.copies)
        for start in range(0, len(topics), _AT_ONCE):
            page = topics[start : start + _AT_ONCE]
            results = self._source.execute_all([logs.partitions(topic) for topic in page])
            for topic, result in zip(page, results, strict=True):
                if not isinstance(result, RefusedError):
                    yield topic, result
                elif result.code == "NOTOPIC":
                    del self.copies[topic]
                else:
                    raise result

    def _release_if_due(self) -> None:
        if self._monotonic() - self._released_at >= _RELEASE_SECONDS:
            self.release()
