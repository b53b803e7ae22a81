"""What topics and groups may be called."""

import unicodedata

from miniqueue.errors import InvalidTopicError

MAX_TOPIC_BYTES = 255
#: Of the group that plain clients read with.
DEFAULT_GROUP_NAME = b"default"


def check_topic(name: bytes) -> bytes:
    """Return `name` if it can name a topic: 1 to 255 bytes of UTF-8, no control character, white space or '/'.

    Raises:
      InvalidTopicError: otherwise; its default text states the rule.
    """
    if not 0 < len(name) <= MAX_TOPIC_BYTES:
        raise InvalidTopicError
    try:
        text = name.decode()
    except UnicodeDecodeError as exc:
        raise InvalidTopicError from exc
    if any(c == "/" or c.isspace() or unicodedata.category(c) == "Cc" for c in text):
        raise InvalidTopicError
    return name
