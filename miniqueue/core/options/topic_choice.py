"""The topics of a request for messages of several: their names, and patterns of names.

    RESP    PATTERN jobs.* TOPICS orders letters
    HTTP    ?topic=orders&topic=letters&pattern=jobs.*

A pattern is the beginning of names, followed by a star, as in the roles of users. It also stands for topics that do not
exist yet.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from miniqueue.core.message.names import check_topic
from miniqueue.errors.requests import InvalidOptionError

#: Maximum number of topics, and of patterns, of one request: it waits in each topic, which takes memory and time.
MAX_TOPICS: Final = 100


class TopicChoice(NamedTuple):
    """The topics that a request is about.

    Attributes:
      names: the names of topics, each once; they need not exist.
      beginnings: the patterns, without their stars.
    """

    names: tuple[bytes, ...]
    beginnings: tuple[bytes, ...] = ()

    def fits(self, name: bytes) -> bool:
        """Whether the name of a topic is among the names, or fits a pattern."""
        return name in self.names or name.startswith(self.beginnings)

    def among(self, existing: Sequence[bytes]) -> list[bytes]:
        """Return the existing topics, of sorted names, that fit a pattern."""
        fitting: dict[bytes, None] = {}
        for beginning in self.beginnings:
            start = bisect_left(existing, beginning)
            # Names are UTF-8, and so contain no byte 0xFF.
            fitting |= dict.fromkeys(existing[start : bisect_left(existing, beginning + b"\xff", start)])
        return list(fitting)


def parse_choice(names: Iterable[bytes], patterns: Iterable[bytes]) -> TopicChoice:
    """Return the topics of a request.

    Raises:
      InvalidTopicError: no topic can have one of the names.
      InvalidOptionError: a pattern is invalid, or there are too many names or patterns, or none.
    """
    choice = TopicChoice(tuple(dict.fromkeys(names)), tuple(map(_beginning, dict.fromkeys(patterns))))
    if not any(choice):
        raise InvalidOptionError("no topics; name topics, or patterns of them")
    if max(map(len, choice)) > MAX_TOPICS:
        raise InvalidOptionError(f"too many topics; at most {MAX_TOPICS} topics and {MAX_TOPICS} patterns are allowed")
    for name in choice.names:
        check_topic(name)
    return choice


def _beginning(pattern: bytes) -> bytes:
    beginning = pattern.removesuffix(b"*")
    if beginning == pattern or b"*" in beginning:
        raise InvalidOptionError("a pattern is the beginning of names, followed by one '*', as in jobs.*")
    if beginning:
        check_topic(beginning)
    return beginning
