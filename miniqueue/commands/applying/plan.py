"""The differences between a file and a broker, as changes in the order in which they are carried out.

    described   existing   change
    ─────────   ────────   ──────
    values      nothing    create, with the values
    values      others     change, each value that differs
    nothing     values     delete, only if it is asked for, and only of a table that the file has
    values      the same   none

Pure: decides, and does nothing. Changes of topics come before those of groups, and both before schedules; deletions
come last, and in the other order.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from miniqueue.commands.applying.resources import (
    OWN_TOPICS,
    START,
    Described,
    Existing,
    Kind,
    Resource,
    Values,
)
from miniqueue.core.message.names import DEFAULT_GROUP_NAME
from miniqueue.core.settings import settings as topic_settings
from miniqueue.core.settings.settings import DEFAULT_SETTINGS, TopicSettings
from miniqueue.errors import ConfigError
from miniqueue.errors.requests import InvalidSettingError

DEFAULT_GROUP: Final = DEFAULT_GROUP_NAME.decode()


class Act(StrEnum):
    """What a change does; the values are the words of output."""

    CREATE = "create"
    CHANGE = "change"
    DELETE = "delete"


class Difference(NamedTuple):
    """One value that changes.

    Attributes:
      name: the name of the setting.
      before: the value so far; of a new resource, the default.
      after: the value that the file has.
    """

    name: str
    before: object
    after: object


class Change(NamedTuple):
    """One step of a plan.

    Attributes:
      act: what it does.
      resource: what it changes.
      differences: the values that change; none for a deletion.
      message_count: the number of unacknowledged messages that a deletion of a topic loses.
    """

    act: Act
    resource: Resource
    differences: tuple[Difference, ...] = ()
    message_count: int = 0


def plan(described: Described, existing: Existing, *, prunes: bool) -> list[Change]:
    """Return the changes that give the broker what the file describes; raises ConfigError if one is impossible.

    Args:
      described: the content of the file.
      existing: what the broker has.
      prunes: whether to delete what the file does not name.
    """
    problems: list[str] = []
    changes = [
        change
        for kind in Kind
        for resource, values in described.resources.items()
        if resource.kind is kind and (change := _change(resource, values, existing, problems))
    ]
    if problems:
        raise ConfigError(problems)
    return [*changes, *(_deletions(described, existing) if prunes else ())]


def kept_topics(described: Described, existing: Existing) -> set[str]:
    """Return the topics that the file names: in tables, as topics of dead letters, and in schedules."""
    topics = set()
    for resource, values in described.resources.items():
        if resource.kind is Kind.SCHEDULE:
            topics.add(str(values["topic"]))
        elif resource.kind is Kind.TOPIC:
            settings = _merged(existing.resources.get(resource, {}), values)
            topics |= {resource.name, settings.dead_letters_of(resource.name.encode()).decode()}
    return topics


def _change(resource: Resource, values: Values, existing: Existing, problems: list[str]) -> Change | None:
    before = existing.resources.get(resource)
    if resource.kind is Kind.TOPIC:
        problems += _topic_problems(resource, values, before)
    if before is None:
        defaults: Values = topic_settings.DEFAULTS if resource.kind is Kind.TOPIC else {}
        new = tuple(
            Difference(name, defaults.get(name), value)
            for name, value in values.items()
            if _is_named(resource.kind, value)
        )
        return Change(Act.CREATE, resource, new)
    differences = tuple(
        Difference(name, before.get(name), value)
        for name, value in values.items()
        if name != START and before.get(name) != value
    )
    return Change(Act.CHANGE, resource, differences) if differences else None


def _is_named(kind: Kind, value: object) -> bool:
    """Whether a value of a new resource is a difference.

    All values of topics and groups are: the file names them, and the broker can have other defaults of new topics. A
    schedule and a user have every value; an empty one, such as no key, is the same as none.
    """
    return kind in (Kind.TOPIC, Kind.GROUP) or value not in (None, "", b"", ())


def _topic_problems(resource: Resource, values: Values, before: Values | None) -> Iterator[str]:
    """Yield why the settings of a topic are impossible."""
    try:
        _merged({}, before or {}).with_changes(values, resource.name.encode())
    except InvalidSettingError as exc:
        yield f"{resource}: {exc}"
    if before is None:
        return
    partitions, present = values.get("partitions"), before.get("partitions")
    if isinstance(partitions, int) and isinstance(present, int) and partitions < present:
        yield f"{resource}: partitions can only be increased; there are {present}, the file has {partitions}"
    if values.get("default_group") is False and before.get("default_group"):
        yield f"{resource}: default_group can be false only when the topic is created"


def _merged(before: Values, values: Values) -> TopicSettings:
    known = {name: value for name, value in {**before, **values}.items() if name in topic_settings.FIELDS}
    return DEFAULT_SETTINGS._replace(**known)  # type: ignore[arg-type]  # they were checked


def _deletions(described: Described, existing: Existing) -> list[Change]:
    kept = kept_topics(described, existing)
    unnamed = [resource for resource in existing.resources if resource not in described.resources]
    topics = [
        resource
        for resource in _of_kind(unnamed, Kind.TOPIC)
        if described.has_topics and resource.name not in kept and not resource.name.startswith(OWN_TOPICS)
    ]
    groups = [
        resource
        for resource in _of_kind(unnamed, Kind.GROUP)
        if resource.topic in described.topics_with_groups
        and resource.name != DEFAULT_GROUP
        and resource not in existing.own_end
    ]
    schedules = _of_kind(unnamed, Kind.SCHEDULE) if described.has_schedules else []
    users = _of_kind(unnamed, Kind.USER) if described.has_users else []
    return [
        Change(Act.DELETE, resource, (), _message_count(resource, existing.message_counts))
        for resource in (*users, *schedules, *groups, *topics)
    ]


def _of_kind(resources: Iterable[Resource], kind: Kind) -> list[Resource]:
    return sorted(resource for resource in resources if resource.kind is kind)


def _message_count(resource: Resource, counts: Mapping[str, int]) -> int:
    return counts.get(resource.name, 0) if resource.kind is Kind.TOPIC else 0
