"""The settings of the parts of a spread topic: those of the topic, in which each part has its share of the limits.

    max_messages 1000, spread 4 ─▶ each part: max_messages 250, spread 0

A limit that does not divide is rounded up, so that the parts together have at least the limit. Limits of each key stay
as they are: all messages of a key are in one part.

A topic that gets more parts remembers how many it had, and until when. A publish that is repeated is recognized by the
part in which it would have been before:

    spread_before 4 1700000000000, spread 8 ─▶ a dedup id: for its window also where it is of 4 parts
                                               a unique key: always, as its message can still be there
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

from miniqueue.core.message.parts import SEPARATOR
from miniqueue.core.options.publish import DIGEST_MARK, MAX_KEY_BYTES
from miniqueue.core.settings.fields import MIN_RATE
from miniqueue.core.settings.settings import TopicSettings

#: For so long after its window a dedup id is looked for where it was before: shards learn of a growth one by one.
GROWTH_SECONDS: Final = 60.0
#: The whole numbers that are divided; the rate `max_rate` is, too. 0 and None, which mean unlimited, stay.
DIVIDED: Final = ("max_concurrency", "max_messages", "max_bytes", "retention_bytes", "retention_messages")


def settings_of_part(settings: TopicSettings) -> TopicSettings:
    """Return the settings of each part of a topic with these settings, whose `spread` is not 0."""
    count = settings.spread
    divided = {name: -(-limit // count) for name in DIVIDED if (limit := getattr(settings, name))}
    max_rate = max(MIN_RATE, settings.max_rate / count) if settings.max_rate else 0.0
    return settings._replace(spread=0, spread_before=(), max_rate=max_rate, **divided)


class Earlier(NamedTuple):
    """The numbers of parts that a topic has had before, ascending.

    Attributes:
      counts: all of them.
      recent: those among which a dedup id can have been published that is still remembered.
    """

    counts: Sequence[int] = ()
    recent: Sequence[int] = ()

    def batch_id(self, dedup_id: bytes, part_count: int) -> bytes:
        """Return the dedup id that parts remember for a batch whose messages were divided among so many parts.

        A part can have messages of the batch by either number, so each has an id of its own. That of the first number
        is the id itself, as the topic had not grown then.
        """
        if not self.counts or part_count == self.counts[0]:
            return dedup_id
        name, mark, digest = dedup_id.partition(DIGEST_MARK)
        if len(dedup_id) > MAX_KEY_BYTES - 3:  # there is no room for the number
            name = blake2b(name).hexdigest().encode()
        return b"%b%b%d%b%b" % (name, SEPARATOR, part_count, mark, digest)


NEVER_GREW: Final = Earlier()


def earlier_of(settings: TopicSettings, now_ms: int) -> Earlier:
    """Return the numbers of parts that a topic with these settings has had before."""
    oldest_ms = now_ms - (settings.dedup_window_seconds + GROWTH_SECONDS) * 1000
    counts = [count for count, _ in settings.spread_before]
    return Earlier(counts, [count for count, grown_at_ms in settings.spread_before if grown_at_ms > oldest_ms])
