"""Carries out the changes of a plan on a broker, one call each; users are in `users`."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from miniqueue.commands.applying.plan import Act, Change
from miniqueue.commands.applying.reading import settings_of
from miniqueue.commands.applying.resources import IDLE, SCHEDULE_DEFAULTS, START, Kind, Resource, Values
from miniqueue.core.settings import settings as topic_settings
from miniqueue_client import Client

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def carry_out(client: Client, change: Change, described: Mapping[Resource, Values]) -> None:
    """Carry out one change of a topic, a group, or a schedule; raises ClientError.

    Args:
      client: a client of the broker.
      change: the change.
      described: the values of the resources that the file names.
    """
    resource = change.resource
    values = {difference.name: difference.after for difference in change.differences}
    match resource.kind, change.act:
        case Kind.TOPIC, Act.CREATE:
            client.create_topic(resource.name, **_texts(values))
        case Kind.TOPIC, Act.CHANGE:
            client.set_topic(resource.name, **_texts(values))
        case Kind.TOPIC, Act.DELETE:
            client.delete_topic(resource.name)
        case Kind.GROUP, Act.CREATE:
            _create_group(client, resource, described[resource])
        case Kind.GROUP, Act.CHANGE:
            _set_idle_seconds(client, resource, values[IDLE])
        case Kind.GROUP, Act.DELETE:
            client.delete_group(resource.topic, resource.name)
        case Kind.SCHEDULE, Act.DELETE:
            client.delete_schedule(resource.name)
        case Kind.SCHEDULE, _:
            _set_schedule(client, resource.name, described[resource])
        case _:
            raise AssertionError(f"no change of a broker: {change}")


def _texts(values: Values) -> dict[str, str]:
    return {name: _text(name, value) for name, value in values.items()}


def _text(name: str, value: object) -> str:
    return "default" if value == topic_settings.DEFAULTS[name] else topic_settings.text_of(value)


def _create_group(client: Client, resource: Resource, values: Values) -> None:
    start: Any = values.get(START, "earliest")
    idle_seconds: Any = values.get(IDLE) or None
    client.create_group(resource.topic, resource.name, start=start, idle_seconds=idle_seconds)


def _set_idle_seconds(client: Client, resource: Resource, value: Any) -> None:  # noqa: ANN401 - a checked value
    """Set the idle time of one group, in the setting of its topic that contains the idle times of its groups."""
    own: Any = settings_of(client.topic_settings(resource.topic))["idle_groups"]
    times = {**dict(own), resource.name: value}
    if not value:
        del times[resource.name]
    client.set_topic(resource.topic, idle_groups=topic_settings.text_of(tuple(sorted(times.items()))))


def _set_schedule(client: Client, name: str, values: Values) -> None:
    """Set a schedule, without the members that are at their defaults."""
    words: dict[str, Any] = {key: value for key, value in values.items() if value != SCHEDULE_DEFAULTS[key]}
    topic, payload = words.pop("topic"), words.pop("payload", b"")
    if "until" in words:
        words["until"] = _EPOCH + timedelta(milliseconds=words["until"])
    client.set_schedule(name, topic, payload, **words)
