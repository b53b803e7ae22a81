"""Bytes in JSON: as text if they are UTF-8, otherwise in base64.

    a payload       the member    "text":"Dear Ada"    or    "msg":"/w=="
    other bytes     a value       "Dear Ada"           or    {"base64":"/w=="}

A client can also send text in base64.
"""

import binascii
from typing import Any

from miniqueue.errors import InvalidLineError


def payload_member(payload: bytes) -> dict[str, str]:
    """Return the member for a payload."""
    try:
        return {"text": payload.decode()}
    except UnicodeDecodeError:
        return {"msg": _base64(payload)}


def take_payload(members: dict[str, Any]) -> bytes:
    """Remove the payload from the members of an object, and return it; raises InvalidLineError."""
    if ("text" in members) is ("msg" in members):
        raise InvalidLineError("exactly one of 'text' and 'msg' is required; 'msg' is base64")
    name = "text" if "text" in members else "msg"
    value = members.pop(name)
    try:
        return str.encode(value) if name == "text" else _from_base64(value)
    except (TypeError, ValueError) as exc:  # text that UTF-8 cannot encode raises a ValueError, too
        raise InvalidLineError(f"invalid {name!r}; must be {'a string' if name == 'text' else 'base64'}") from exc


def bytes_value(content: bytes) -> str | dict[str, str]:
    """Return the value for bytes other than a payload."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"base64": _base64(content)}


def parse_bytes(value: Any) -> bytes:  # noqa: ANN401 - any value of JSON or TOML
    """Parse the value for bytes other than a payload; raises ValueError, TypeError, or AttributeError."""
    if isinstance(value, str):
        return value.encode()
    [(name, text)] = value.items()
    if name != "base64":
        raise ValueError
    return _from_base64(text)


def _base64(content: bytes) -> str:
    return binascii.b2a_base64(content, newline=False).decode()


def _from_base64(text: str) -> bytes:
    return binascii.a2b_base64(text, strict_mode=True)
