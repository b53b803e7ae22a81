r"""The settings of a topic as a JSON line, among the lines of its messages.

    {"topic":"letters","settings":{"max_deliveries":5,"retry_delays":[1,5]}}\n

Only what is not at its default stands there; a topic without such settings has no line. Knows neither files nor stores.
"""

from typing import Final, NamedTuple

import orjson

from miniqueue.core import topic_settings
from miniqueue.core.names import check_new_topic
from miniqueue.core.topic_errors import InvalidSettingError
from miniqueue.core.topic_settings import TopicSettings
from miniqueue.errors import InvalidLineError, InvalidTopicError

#: Of messages only those with a header or a key of that name have these bytes: within a text the quotes are escaped.
_MARK: Final = b'"settings"'
_MEMBERS: Final = {"topic", "settings"}


class StoredSettings(NamedTuple):
    """What was set for a topic."""

    topic: bytes
    settings: TopicSettings


def encode(topic: bytes, settings: TopicSettings) -> bytes:
    """Encode the settings of a topic as a line."""
    return orjson.dumps({"topic": topic.decode("utf-8", "backslashreplace"), "settings": settings.members()}) + b"\n"


def decode(line: bytes) -> StoredSettings | None:
    """Parse a line of settings, or return None if it is one of a message; raises InvalidLineError."""
    if _MARK not in line:
        return None
    try:
        members = orjson.loads(line)
    except orjson.JSONDecodeError as exc:
        raise InvalidLineError("the line is not JSON") from exc
    if not isinstance(members, dict) or "settings" not in members:
        return None
    name, given = members.get("topic"), members["settings"]
    if members.keys() != _MEMBERS or not isinstance(name, str) or not isinstance(given, dict):
        raise InvalidLineError("a line of settings has 'topic', a text, and 'settings', an object, and nothing else")
    try:
        topic = check_new_topic(name.encode())
        return StoredSettings(topic, topic_settings.of_members(given, topic))
    except (InvalidTopicError, InvalidSettingError) as exc:
        raise InvalidLineError(str(exc)) from exc
