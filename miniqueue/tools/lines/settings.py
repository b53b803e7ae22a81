r"""The settings of a topic as a JSON line, among the lines of its messages.

    {"topic":"letters","settings":{"max_deliveries":5,"retry_delays":[1,5]}}\n

The line contains only settings that are not at their default; a topic without such settings has no line.

    {"topic":"orders","part":3,"settings":{"idle_groups":[["audit",60]]}}\n    of the groups in a part of a spread topic
"""

from typing import Final, NamedTuple

import orjson

from miniqueue.core.message.names import check_new_topic
from miniqueue.core.settings import settings as topic_settings
from miniqueue.core.settings.settings import TopicSettings
from miniqueue.errors import InvalidLineError, InvalidTopicError
from miniqueue.errors.requests import InvalidSettingError
from miniqueue.tools.lines.members import object_of, part_of, value_of

#: Among messages, only those with a header or key of that name contain these bytes: within a text, quotes are escaped.
_MARK: Final = b'"settings"'
_MEMBERS: Final = {"topic", "settings"}
_WITH_PART: Final = _MEMBERS | {"part"}


class StoredSettings(NamedTuple):
    """The settings of a topic, or of the groups of a part of a spread one, that are not at their default."""

    topic: bytes
    settings: TopicSettings
    part: int | None = None


def encode(topic: bytes, settings: TopicSettings, part: int | None = None) -> bytes:
    """Encode the settings of a topic, or of a part, as a line."""
    name = {"topic": topic.decode("utf-8", "backslashreplace"), **({} if part is None else {"part": part})}
    return orjson.dumps(name | {"settings": settings.members()}) + b"\n"


def decode(line: bytes) -> StoredSettings | None:
    """Parse a line of settings, or return None if it is another line; raise InvalidLineError."""
    if _MARK not in line:
        return None
    members = object_of(line)
    if "settings" not in members:
        return None
    name, fields = members.get("topic"), members["settings"]
    if members.keys() not in (_MEMBERS, _WITH_PART) or not isinstance(name, str) or not isinstance(fields, dict):
        raise InvalidLineError("invalid settings; must be only 'topic', a string, and 'settings', an object")
    try:
        topic = check_new_topic(name.encode())
        part = value_of(members, "part", part_of, default=None)
        return StoredSettings(topic, topic_settings.of_members(fields, topic), part)
    except (InvalidTopicError, InvalidSettingError) as exc:
        raise InvalidLineError(str(exc)) from exc
