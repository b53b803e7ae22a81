"""What a broker has, in the form of `resources`: asked for in pipelines, a few round trips whatever the number.

    TOPIC GET orders ─▶ {"partitions": "4", …} ─▶ checked values
    GROUP LIST orders          ─▶ the idle time of each group
    SCHEDULE GET report        ─▶ all members

Only what a plan needs is asked for; with `everything`, all that a user may see.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, TypeVar

from miniqueue.commands.applying.resources import IDLE, Described, Existing, Kind, Resource, Values
from miniqueue.commands.shell.refusals import explained
from miniqueue.core.settings import settings as topic_settings
from miniqueue_client import Client, Group, RefusedError, Schedule
from miniqueue_client.calls import groups as group_calls
from miniqueue_client.calls import schedules as schedule_calls
from miniqueue_client.calls import topics as topic_calls
from miniqueue_client.calls.call import Call

T = TypeVar("T")

#: Maximum number of calls in one pipeline.
_AT_ONCE: Final = 1000


def read_existing(client: Client, described: Described, *, everything: bool = False) -> Existing:
    """Return what the broker has of what a file names; raises ClientError.

    Args:
      client: a client of the broker.
      described: the content of the file.
      everything: whether to read all that the user may see, as a plan with deletions and an export require.
    """
    reads_topics = everything and described.has_topics
    topics = _unique([*described.names(Kind.TOPIC), *(client.topics() if reads_topics else ())])
    resources: dict[Resource, Values] = {}
    for name, texts in _asked(client, topics, topic_calls.topic_settings, "NOTOPIC"):
        resources[Resource(Kind.TOPIC, name)] = settings_of(texts)
    own_end = _read_groups(client, [resource.name for resource in resources], resources)
    schedules = described.names(Kind.SCHEDULE)
    if everything and described.has_schedules:
        schedules = _unique([*schedules, *_schedule_names(client)])
    for name, schedule in _asked(client, schedules, schedule_calls.find_schedule, "NOSCHEDULE"):
        resources[Resource(Kind.SCHEDULE, name)] = _schedule_values(schedule)
    counts = dict(_asked(client, [r.name for r in resources if r.kind is Kind.TOPIC], topic_calls.length, ""))
    return Existing(resources, own_end, counts if everything else {})


def settings_of(texts: Mapping[str, str]) -> Values:
    """Return the settings of a topic from their texts; settings that only a newer broker has are left out."""
    return {name: _setting(name, text) for name, text in texts.items() if name in topic_settings.FIELDS}


def _setting(name: str, text: str) -> object:
    field, default = topic_settings.FIELDS[name], topic_settings.DEFAULTS[name]
    return default if text == topic_settings.text_of(default) else field.check(field.parse(text))


def _read_groups(client: Client, topics: Sequence[str], resources: dict[Resource, Values]) -> frozenset[Resource]:
    own_end = set()
    for topic, groups in _asked(client, topics, group_calls.groups, "NOTOPIC"):
        for group in groups:
            resource = Resource(Kind.GROUP, group.name, topic)
            resources[resource] = {IDLE: _idle_seconds(group, resources[Resource(Kind.TOPIC, topic)])}
            own_end |= {resource} if group.ephemeral else set()
    return frozenset(own_end)


def _idle_seconds(group: Group, settings: Values) -> float:
    """Return the time that a group has of its own; `Group.idle_seconds` can be that of its topic."""
    own: Any = settings.get("idle_groups", ())
    return float(dict(own).get(group.name, 0.0))


def _schedule_names(client: Client) -> Iterator[str]:
    after = None
    while page := client.schedules(after=after):
        yield from (schedule.name for schedule in page)
        after = page[-1].name


def _schedule_values(schedule: Schedule) -> Values:
    return {
        "topic": schedule.topic,
        "cron": schedule.cron,
        "zone": schedule.zone or "UTC",
        "every_seconds": schedule.every_seconds,
        "missed": schedule.missed,
        "until": schedule.until_ms,
        "priority": schedule.priority,
        "key": schedule.key,
        "ttl_seconds": schedule.ttl_seconds,
        "headers": schedule.headers,
        "payload": schedule.payload or b"",
    }


def _asked(
    client: Client, names: Iterable[str], make: Callable[[str], Call[T]], absent: str
) -> Iterator[tuple[str, T]]:
    """Yield a name and the result of its call, for each name that exists; raises ClientError.

    Args:
      client: a client of the broker.
      names: the names.
      make: returns the call for a name.
      absent: the error code of a name that does not exist.
    """
    remaining = iter(names)
    while page := list(islice(remaining, _AT_ONCE)):
        calls: list[Call[Any]] = [make(name) for name in page]
        for name, call, result in zip(page, calls, client.execute_all(calls), strict=True):
            if not isinstance(result, RefusedError):
                yield name, result
            elif result.code != absent:
                raise explained(result, call.words)


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
