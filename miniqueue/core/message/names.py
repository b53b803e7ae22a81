"""The rules for the names of topics, groups, members, and users."""

import re
import unicodedata

from miniqueue.core.message.parts import SEPARATOR, parse_part
from miniqueue.errors import InvalidTopicError
from miniqueue.errors.requests import InvalidGroupError, InvalidMemberError

#: Maximum length of a name: its length is stored in one byte.
MAX_TOPIC_BYTES = 255
#: The name of the group of clients that name none.
DEFAULT_GROUP_NAME = b"default"
#: What most topics are called; other characters than these are looked at one by one.
_USUAL_TOPIC = re.compile(rb"[!-.0-~]{1,%d}" % MAX_TOPIC_BYTES)
#: HTTP clients resolve these path segments before they send the path, so no request could reach such a name.
DOT_SEGMENTS = frozenset({b".", b".."})
USER_NAME_RULE = "1 to 64 letters, digits, and . _ @ -"
_USER_NAME = re.compile(r"[A-Za-z0-9._@-]{1,64}")


def check_topic(name: bytes) -> bytes:
    """Return `name` if a topic can have it: one that `check_name` accepts, or that of a part of a spread topic.

    No client can use a part: without shards none is ever created, and with shards the doors refuse these names.
    Raises InvalidTopicError.
    """
    if SEPARATOR in name and len(name) <= MAX_TOPIC_BYTES and (part := parse_part(name)) is not None:
        check_name(part[0])
        return name
    return check_name(name)


def check_name(name: bytes) -> bytes:
    """Return `name` if it is valid: 1 to 255 bytes of UTF-8 without control characters, white space, or '/'.

    Raises:
      InvalidTopicError: the name is invalid; the default text of the error states the rule.
    """
    if _USUAL_TOPIC.fullmatch(name):
        return name
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
    """Return `name` if a topic can be created with it: valid, and not '.' or '..'; raises InvalidTopicError.

    Topics that earlier versions created with these names stay usable.
    """
    if name in DOT_SEGMENTS:
        raise InvalidTopicError(refusal_of_dots("topic", name))
    return check_topic(name)


def refusal_of_dots(kind: str, name: bytes) -> str:
    """Return the error text for one of `DOT_SEGMENTS` as the name of a new topic or group."""
    return f"invalid name of a {kind}: '{name.decode()}'; no HTTP path can have '.' or '..'; use another name"


def check_member(name: bytes) -> bytes:
    """Return `name` if it is valid for a member, by the rules for topics; raises InvalidMemberError."""
    try:
        return check_name(name)
    except InvalidTopicError as exc:
        raise InvalidMemberError from exc


def check_group(name: bytes) -> bytes:
    """Return `name` if it is valid for a group, by the rules for topics; raises InvalidGroupError."""
    try:
        return check_name(name)
    except InvalidTopicError as exc:
        raise InvalidGroupError from exc


def check_new_group(name: bytes) -> bytes:
    """Return `name` if a group can be created with it, by the rules for new topics; raises InvalidGroupError."""
    if name in DOT_SEGMENTS:
        raise InvalidGroupError(refusal_of_dots("group", name))
    return check_group(name)


def is_user_name(name: str) -> bool:
    """Whether a user can have this name."""
    return _USER_NAME.fullmatch(name) is not None
