"""What a file describes and a broker has: topics, groups, schedules, users, each a name and values.

    Resource(TOPIC, "orders")              partitions=4  max_deliveries=5         values as `core.settings` checks them
    Resource(GROUP, "audit", "orders")     idle_seconds=3600.0  start="latest"    the start matters when it is created
    Resource(SCHEDULE, "report")           topic="reports"  cron="0 9 * * *"  …
    Resource(USER, "ada")                  publisher=("orders.*",)  max_topics=10

Values of one name have one form, from whichever side they come, so that they can be compared.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from miniqueue.core.settings.quotas import FIELDS as QUOTA_FIELDS

#: Checked values by name.
Values: TypeAlias = Mapping[str, object]

#: The beginning of the names of topics that miniqueue uses itself, such as the positions of `miniqueue copy`.
OWN_TOPICS: Final = "miniqueue."

#: The value of a group that is used only when the group is created.
START: Final = "start"
IDLE: Final = "idle_seconds"

#: The members of a schedule, with the value of one that the file does not name.
SCHEDULE_DEFAULTS: Final[Values] = MappingProxyType(
    {
        "topic": "",
        "cron": "",
        "zone": "UTC",
        "every_seconds": 0.0,
        "missed": "all",
        "until": None,
        "priority": "normal",
        "key": b"",
        "ttl_seconds": None,
        "headers": (),
        "payload": b"",
    }
)
#: The members of a user besides the roles, with the value of one that the file does not name.
USER_DEFAULTS: Final[Values] = MappingProxyType({"certificate": "", **dict.fromkeys(QUOTA_FIELDS)})


class Kind(StrEnum):
    """A kind of what the file describes; the values are the words of output."""

    TOPIC = "topic"
    GROUP = "group"
    SCHEDULE = "schedule"
    USER = "user"


class Resource(NamedTuple):
    """The identity of a topic, a group, a schedule, or a user.

    Attributes:
      kind: which of them.
      name: its name.
      topic: the topic of a group; "" for the other kinds.
    """

    kind: Kind
    name: str
    topic: str = ""

    def __str__(self) -> str:
        """Return the words that identify it, as in `group orders audit`."""
        return " ".join(filter(None, (self.kind.value, self.topic, self.name)))


@dataclass(frozen=True)
class Described:
    """The content of a file.

    Attributes:
      resources: the values of each resource that the file names. For topics and groups, only those that the file sets;
        for schedules and users all, since these are replaced as a whole.
      has_topics: whether there is a table of topics, an empty one included.
      has_schedules: whether there is a table of schedules.
      has_users: whether there is a table of users.
      topics_with_groups: the topics whose groups the file lists.
    """

    resources: Mapping[Resource, Values]
    has_topics: bool = False
    has_schedules: bool = False
    has_users: bool = False
    topics_with_groups: frozenset[str] = frozenset()

    def names(self, kind: Kind) -> list[str]:
        """Return the names of one kind, in the order of the file."""
        return [resource.name for resource in self.resources if resource.kind is kind]


@dataclass(frozen=True)
class Existing:
    """What the broker and the users file have, as far as the plan needs it.

    Attributes:
      resources: all values of each resource.
      own_end: the groups that end by themselves with their last consumer.
      message_counts: the number of unacknowledged messages of topics.
    """

    resources: Mapping[Resource, Values]
    own_end: frozenset[Resource] = frozenset()
    message_counts: Mapping[str, int] = field(default_factory=dict)
