"""Calls as requests over HTTP/2: their paths and bodies, and their results.

    RECEIVE carts COUNT 2             POST /topics/carts/receive?count=2                  {"receipt":"5f0c-17",…}
    ACK carts 5f0c-17 SYNC            POST /topics/carts/ack?sync=true {"receipts":[…]}   ["OK"]

    in a transaction:                 POST /transactions?sync=true
    PUB orders one KEY 42             {"publish":"orders","msg":"b25l","key":"42"}        {"id":"0-17"}
    PUBBATCH mails 7f two three       {"publish":"mails","batch":[…],"dedup":"7f"}        {"ids":["0-3","0-4"]}
    ACK carts 5f0c-17 SYNC            {"ack":"carts","receipts":["5f0c-17"]}              ["OK"]

The calls are those of the clients over RESP, whose words `calls.messages` defines. So methods have the same arguments
and results, whatever their client speaks. JSON has text where RESP has any bytes: all words but payloads must be UTF-8.
"""

import binascii
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlencode

from miniqueue_client.calls.call import Call, Reply, Word
from miniqueue_client.calls.json_text import encoded
from miniqueue_client.errors import RequestError

T = TypeVar("T")

_SETTLES: Final = frozenset({"ACK", "NACK", "BACK", "DACK", "REJECT", "EXTEND"})
#: The members with the value that follows the receipts of a settle.
_VALUES: Final = {"DACK": "delaySeconds", "EXTEND": "leaseSeconds", "REJECT": "reason"}
_NACK_OPTIONS: Final = {"DELAY": "delaySeconds", "REASON": "reason"}
_SYNC: Final = "?sync=true"
_CAPITAL: Final = re.compile("[A-Z]")


def encode(call: Call[Any]) -> tuple[str, bytes]:
    """Return the path and the body of the request for a receive or a settle; raises RequestError."""
    name, topic, *rest = call.words
    words = list(map(_text, rest))
    path = f"/topics/{quote(_text(topic), safe='')}/{str(name).lower()}"
    if name != "RECEIVE":
        members, is_synced = _settle(str(name), words)
        return path + _SYNC * is_synced, encoded(members)
    if words[-1] == "AUTOACK":
        words.append("true")
    return f"{path}?{urlencode(dict(zip(map(str.lower, words[::2]), words[1::2], strict=True)))}", b""


def decode(call: Call[T], body: bytes) -> T:
    """Return the result of a receive or a settle, from the body of the reply."""
    lines = list(map(json.loads, body.splitlines()))
    return call.result_of(list(map(_received, lines)) if call.words[0] == "RECEIVE" else _reply("", lines[0]))


def encode_transaction(calls: Sequence[Call[Any]]) -> tuple[str, bytes]:
    """Return the path and the body of the request for a transaction; raises RequestError."""
    acts = [_act(call.words) for call in calls]
    path = "/transactions" + _SYNC * any(is_synced for _, is_synced in acts)
    return path, b"".join(encoded(act) + b"\n" for act, _ in acts)


def decode_transaction(calls: Sequence[Call[Any]], body: bytes) -> list[Any]:
    """Return the results of the calls of a transaction, from the body of the reply."""
    lines = map(json.loads, body.splitlines())
    return [call.result_of(_reply(call.words[0], line)) for call, line in zip(calls, lines, strict=True)]


def _act(words: Sequence[Word]) -> tuple[dict[str, Any], bool]:
    """Return the act of a command, and whether it is a settle with SYNC."""
    name, topic, *rest = words
    match name:
        case "PUB":
            return {"publish": _text(topic), **_message(rest[0], rest[1:])}, False
        case "MPUBLISH":
            return {"publish": _text(topic), "batch": [_message(payload, ()) for payload in rest]}, False
        case "PUBBATCH" | "PUBEACH":
            dedup = {"dedup": _text(rest[0])} if rest[0] else {}
            messages = _each(rest[1:]) if name == "PUBEACH" else (_message(payload, ()) for payload in rest[1:])
            return {"publish": _text(topic), "batch": list(messages), **dedup}, False
    members, is_synced = _settle(str(name), list(map(_text, rest)))
    return {str(name).lower(): _text(topic), **members}, is_synced


def _settle(name: str, words: list[str]) -> tuple[dict[str, Any], bool]:
    """Return the members of a settle with these words after the topic, and whether SYNC is among them."""
    if name not in _SETTLES:
        raise RequestError(f"{name} is no command of the client over HTTP/2")
    members = {_VALUES[name]: words.pop()} if name in _VALUES else {}
    if name == "NACK":
        receipts_end = next((index for index, word in enumerate(words) if word in _NACK_OPTIONS), len(words))
        words, options = words[:receipts_end], words[receipts_end:]
        members = {_NACK_OPTIONS[option]: value for option, value in zip(options[::2], options[1::2], strict=True)}
    is_synced = words[-1] == "SYNC"
    return {"receipts": words[:-1] if is_synced else words, **members}, is_synced


def _each(words: Sequence[Word]) -> Iterator[dict[str, Any]]:
    """Yield the messages of PUBEACH: each payload is followed by the number of its option words, and these."""
    remaining = iter(words)
    for payload in remaining:
        yield _message(payload, list(islice(remaining, int(next(remaining)))))


def _message(payload: Word, options: Sequence[Word]) -> dict[str, Any]:
    """Return the members of a message: its payload, and the options in the words after it."""
    encoded = str(payload).encode() if isinstance(payload, str | int) else payload
    members: dict[str, Any] = {"msg": binascii.b2a_base64(encoded, newline=False).decode()}
    words = map(_text, options)
    for name in words:
        if name == "HEADER":
            members.setdefault("headers", []).append([next(words), next(words)])
        else:
            members[name.lower()] = next(words)
    return members


def _reply(name: Word, line: Any) -> Reply:  # noqa: ANN401 - any line of JSON
    """Return a line of the reply as RESP has the reply to a command."""
    if isinstance(line, list):
        return [word.encode() for word in line]
    ids = line["ids"] if "ids" in line else line["id"]
    return ids if name == "MPUBLISH" else [ids, line.get("duplicate", False)]


def _received(members: dict[str, Any]) -> list[Reply]:
    """Return a line of a receive as RESP has the message."""
    return [members.pop("receipt", "").encode(), binascii.a2b_base64(members.pop("msg", "")), _plain(members)]


def _plain(value: Any) -> Reply:  # noqa: ANN401 - any JSON
    """Return attributes in JSON as RESP has them: names with underscores, and bytes for text."""
    match value:
        case str():
            return value.encode()
        case list():
            return list(map(_plain, value))
        case Mapping():
            return {_CAPITAL.sub(r"_\g<0>", name).lower().encode(): _plain(each) for name, each in value.items()}
    return value


def _text(word: Word) -> str:
    try:
        return word.decode() if isinstance(word, bytes) else str(word)
    except UnicodeDecodeError as exc:
        raise RequestError(f"invalid bytes: {word!r}; over HTTP, all but payloads must be UTF-8") from exc
