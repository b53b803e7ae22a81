"""`miniqueue trace`: prints the trace of a message as a timeline."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from miniqueue.errors import ConfigError
from miniqueue.server.process.escaping import escape
from miniqueue.tools import arguments
from miniqueue.tools.ask import ask

USAGE = """\
Usage: miniqueue trace [-url url] [-token-file file] topic id

Prints the events of a message in order: when it was published, delivered, returned, and
acknowledged, and by which client; also in the topics to which it was moved. The topic's
setting trace must have been on. Asks the running broker over RESP.

  -url url
        redis://[user[:secret]@]host[:port], or rediss:// for TLS (default: the port of
        -resp-port on this machine)
  -resp-port port
        port of the running broker (default 6379)
  -token-file file
        token of a user with the role monitor for the topic; required if the broker has users,
        unless it is on this machine and a password is set as for the broker
  -config file
        TOML file with settings

Exit codes: 0 done; 69 no broker answers, or it refuses: the message does not exist or has
no trace; 78 a flag is invalid.
"""

#: Members of a step that follow the event on a line, in this order; each is preceded by its name.
_DETAILS = ("from", "to", "by", "group", "member", "receipt", "reason")
#: The text of a `reason` that is a number instead, by event.
_NUMBERS: Mapping[bytes, str] = {b"sought": "next {}", b"left_out": "{} steps"}


def run(words: Sequence[str], environ: Mapping[str, str]) -> int:
    """Print a trace; return the exit code. Raises MiniqueueError."""
    options = arguments.read(words, environ, USAGE, settings=("resp-port",), own=("url", "token-file"))
    if options is None:
        return 0
    if len(options.words) != 2:
        raise ConfigError(["trace requires a topic and the id of a message; see -h"])
    url = options.flags.get("url", f"redis://localhost:{options.config.resp_port}")
    topic, message_id = (word.encode("utf-8", "surrogateescape") for word in options.words)
    # The password of the settings is that of the broker on this machine, and not for another one.
    is_elsewhere = "url" in options.flags and "token-file" not in options.flags
    secret = None if is_elsewhere else arguments.read_secret(options)
    steps = ask(url, secret, [b"TRACE", topic, message_id])
    for line in timeline(steps, (topic, message_id)):
        print(line)
    return 0


def timeline(steps: Sequence[Mapping[bytes, Any]], message: tuple[bytes, bytes]) -> list[str]:
    """Return a line for each step, and a line with topic and id wherever these differ from the step before."""
    lines = []
    for step in steps:
        step_message = step[b"topic"], step[b"id"]
        if step_message != message:
            message = step_message
            lines.append(f"-- {_message(*message)}")
        at = datetime.fromtimestamp(step[b"at_ms"] / 1000, UTC)
        lines.append("  ".join([f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03}Z", _event(step), *_details(step)]))
    return lines


def _event(step: Mapping[bytes, Any]) -> str:
    return escape(step[b"event"]).replace("_", " ")


def _details(step: Mapping[bytes, Any]) -> list[str]:
    formats = {"reason": _NUMBERS.get(step[b"event"], "reason {}")}
    names = [name for name in _DETAILS if name.encode() in step]
    return [formats.get(name, name + " {}").format(_shown(step[name.encode()])) for name in names]


def _shown(value: bytes | Mapping[bytes, bytes]) -> str:
    if isinstance(value, Mapping):
        return _message(value[b"topic"], value[b"id"])
    try:
        return escape(value.decode())
    except UnicodeDecodeError:
        return escape(value)


def _message(topic: bytes, message_id: bytes) -> str:
    return f"{_shown(topic)} {_shown(message_id)}"
