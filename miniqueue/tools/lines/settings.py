r"""The settings of a topic as a JSON line, among the lines of its messages.

    {"topic":"letters","settings":{"max_deliveries":5,"retry_delays":[1,5]}}\n

The line contains only settings that are not at their default; a topic without such settings has no line.
"""

from typing import Final, NamedTuple

import orjson

from miniqueue.core.message.names import check_new_topic
from miniqueue.core.settings import settings as topic_settings
from miniqueue.core.settings.settings import TopicSettings
from miniqueue.errors import InvalidLineError, InvalidTopicError
from miniqueue.errors.requests import InvalidSettingError
from miniqueue.tools.lines.members import object_of

#: Among messages, only those with a header or key of that name contain these bytes: within a text, quotes are escaped.
_MARK: Final = b'"settings"'
_MEMBERS: Final = {"topic", "settings"}


class StoredSettings(NamedTuple):
    """The settings of a topic that are not at their default."""

    topic: bytes
    settings: TopicSettings


def encode(topic: bytes, settings: TopicSettings) -> bytes:
    """Encode the settings of a topic as a line."""
    return orjson.dumps({"topic": topic.decode("utf-8", "backslashreplace"), "settings": settings.members()}) + b"\n"


def decode(line: bytes) -> StoredSettings | None:
    """Parse a line of settings, or return None if it is another line; raise InvalidLineError."""
    if _MARK not in line:
        return None
    members = object_of(line)
    if "settings" not in members:
        return None
    name, fields = members.get("topic"), members["settings"]
    if members.keys() != _MEMBERS or not isinstance(name, str) or not isinstance(fields, dict):
        raise InvalidLineError("invalid settings; must be only 'topic', a string, and 'settings', an object")
    try:
        topic = check_new_topic(name.encode())
        return StoredSettings(topic, topic_settings.of_members(fields, topic))
    except (InvalidTopicError, InvalidSettingError) as exc:
        raise InvalidLineError(str(exc)) from exc
