"""`miniqueue trace`: what happened to a message, as a timeline for a person."""

import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from miniqueue.errors import ConfigError
from miniqueue.server.config import Question
from miniqueue.server.escaping import escape, quote
from miniqueue.tools import arguments
from miniqueue.tools.asking import ask

USAGE = """\
Usage: miniqueue trace [-url url] [-token-file file] topic id

Prints what happened to a message, in order: when it was published, delivered, returned,
acknowledged, by whom; also in the topics that it was moved to. The topic's setting trace
must have been on. Asks the running broker over RESP.

  -url url
        redis://[user[:secret]@]host[:port], or rediss:// for TLS (default the port of
        -resp-port on this machine)
  -resp-port port
        of the running broker (default 6379)
  -token-file file
        of a user with the role monitor for the topic, when the broker has users
  -config file
        TOML file with settings

Exit codes: 0 done; 69 no broker answers, or it refuses: there is no such message, or
nothing is known of it; 78 a flag is wrong.
"""

#: What a line has behind the event, in this order, and how it is introduced.
_DETAILS = ("from", "to", "by", "group", "member", "receipt", "reason")
#: How a reason is told that is none.
_REASONS: Mapping[bytes, str] = {b"sought": "next {}", b"left_out": "{} steps"}


def run(words: Sequence[str], environ: Mapping[str, str]) -> int:
    """Print a trace; return the exit code. Raises MiniqueueError."""
    given = arguments.read(words, environ, settings=("resp-port",), own=("url", "token-file"))
    if isinstance(given, Question):
        sys.stdout.write(USAGE)
        return 0
    if len(given.words) != 2:
        raise ConfigError(["trace takes a topic and the id of a message; see -h"])
    url = given.flags.get("url", f"redis://localhost:{given.config.resp_port}")
    topic, message_id = (word.encode("utf-8", "surrogateescape") for word in given.words)
    steps = ask(url, _token(given.flags.get("token-file")), [b"TRACE", topic, message_id])
    for line in timeline(steps, (topic, message_id)):
        print(line)
    return 0


def timeline(steps: Sequence[Mapping[bytes, Any]], place: tuple[bytes, bytes]) -> list[str]:
    """Return a line for each step; the place of the message is told where it is another one than in front."""
    lines = []
    for step in steps:
        here = step[b"topic"], step[b"id"]
        if here != place:
            lines.append(f"-- {_place(*here)}")
            place = here
        at = datetime.fromtimestamp(step[b"at_ms"] / 1000, UTC)
        lines.append("  ".join([f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03}Z", _event(step), *_details(step)]))
    return lines


def _event(step: Mapping[bytes, Any]) -> str:
    return escape(step[b"event"]).replace("_", " ")


def _details(step: Mapping[bytes, Any]) -> list[str]:
    spellings = {"reason": _REASONS.get(step[b"event"], "reason {}")}
    told = [name for name in _DETAILS if name.encode() in step]
    return [spellings.get(name, name + " {}").format(_shown(step[name.encode()])) for name in told]


def _shown(value: bytes | Mapping[bytes, bytes]) -> str:
    if isinstance(value, Mapping):
        return _place(value[b"topic"], value[b"id"])
    try:
        return escape(value.decode())
    except UnicodeDecodeError:
        return escape(value)


def _place(topic: bytes, message_id: bytes) -> str:
    return f"{_shown(topic)} {_shown(message_id)}"


def _token(file: str | None) -> str | None:
    if file is None:
        return None
    try:
        return Path(file).read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError([f"flag -token-file: {quote(file)}: no token can be read there"]) from exc
