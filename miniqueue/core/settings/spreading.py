"""The settings of the parts of a spread topic: those of the topic, in which each part has its share of the limits.

    max_messages 1000, spread 4 ─▶ each part: max_messages 250, spread 0

A limit that does not divide is rounded up, so that the parts together have at least the limit. Limits of each key stay
as they are: all messages of a key are in one part.
"""

from typing import Final

from miniqueue.core.settings.fields import MIN_RATE
from miniqueue.core.settings.settings import TopicSettings

#: The whole numbers that are divided; the rate `max_rate` is, too. 0 and None, which mean unlimited, stay.
DIVIDED: Final = ("max_concurrency", "max_messages", "max_bytes", "retention_bytes", "retention_messages")


def settings_of_part(settings: TopicSettings) -> TopicSettings:
    """Return the settings of each part of a topic with these settings, whose `spread` is not 0."""
    count = settings.spread
    divided = {name: -(-limit // count) for name in DIVIDED if (limit := getattr(settings, name))}
    max_rate = max(MIN_RATE, settings.max_rate / count) if settings.max_rate else 0.0
    return settings._replace(spread=0, max_rate=max_rate, **divided)
