"""What topics and groups may be called."""

import unicodedata

from miniqueue.errors import InvalidTopicError

MAX_TOPIC_BYTES = 255
#: Of the group that plain clients read with.
DEFAULT_GROUP_NAME = b"default"
#: HTTP clients resolve these segments of a path before they send it, so nothing that is named so can be reached.
DOT_SEGMENTS = frozenset({b".", b".."})


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


def check_new_topic(name: bytes) -> bytes:
    """Return `name` if a topic can be made with it: those of `check_topic`, except '.' and '..'.

    Topics that earlier versions made with these names stay; raises InvalidTopicError.
    """
    if name in DOT_SEGMENTS:
        raise InvalidTopicError(refusal_of_dots("topic", name))
    return check_topic(name)


def refusal_of_dots(kind: str, name: bytes) -> str:
    """Return what is wrong with one of `DOT_SEGMENTS` as the name of something new."""
    return f"invalid name of a {kind}: '{name.decode()}'; no HTTP path can have '.' or '..'; use another name"
