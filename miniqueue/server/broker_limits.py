"""What the broker may hold, as the settings say."""

from miniqueue.broker.limits import BrokerLimits
from miniqueue.core.limit_policy import LimitPolicy
from miniqueue.server.config import Config


def broker_limits(config: Config) -> BrokerLimits:
    """Return the limits of a broker with these settings."""
    return BrokerLimits(
        max_topics=config.max_topics,
        max_topic_messages=config.max_topic_messages,
        max_topic_bytes=config.max_topic_bytes,
        max_dedup_ids=config.max_dedup_ids,
        max_groups=config.max_groups,
        max_schedules=config.max_schedules,
        policy=LimitPolicy(config.topic_limit_policy),
        max_prefetch=config.max_prefetch,
        max_uncommitted_bytes=config.max_uncommitted_bytes,
    )
