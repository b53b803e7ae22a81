"""`miniqueue pub`: publishes an argument, standard input, or each line of it."""

import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from miniqueue.commands.messages.lines import Line, batches
from miniqueue.commands.shell import flags
from miniqueue.commands.shell.connecting import BrokerClient, connected
from miniqueue.commands.shell.output import Output, with_output
from miniqueue.commands.shell.progress import progress
from miniqueue.commands.shell.refusals import explained
from miniqueue.commands.shell.texts import counted, terminal_payload
from miniqueue.commands.shell.topic_names import TOPIC
from miniqueue.commands.shell.values import DURATION, HEADER, NAME, PAYLOAD, POSITIVE_DURATION, TIME, Choice, Header
from miniqueue.errors import ConfigError, ConnectError, DisconnectedError, ServerError
from miniqueue_client import Outgoing, PublishedId, RefusedError
from miniqueue_client.calls import messages as message_calls
from miniqueue_client.calls.call import Call
from miniqueue_client.calls.messages import MAX_AT_ONCE, Priority

_MAX_BATCH: Final = 1000
_MAX_BATCH_BYTES: Final = 1 << 20
#: Words of a message in one command: payload, their number, key, time to live; and of each header.
_WORDS: Final = 6
_HEADER_WORDS: Final = 3
#: What the broker says of a payload that is too large, before it has read it; and the least size that it may say it of.
_TOO_LARGE: Final = "invalid bulk length"
_SUSPICIOUS_BYTES: Final = 1 << 16


class Options(NamedTuple):
    """What all messages of a command have; None or empty: not set."""

    key: bytes | None
    delay: float | None
    at: datetime | None
    ttl: float | None
    priority: Priority | None
    headers: tuple[Header, ...]
    dedup_id: str | None
    unique_key: bytes | None
    replace: bool

    @property
    def fits_a_batch(self) -> bool:
        """Whether messages with these options can be one commit, with one id against duplicates."""
        others = self.delay, self.at, self.priority, self.dedup_id, self.unique_key
        return all(option is None for option in others)

    def call(self, topic: str, payload: bytes, number: int | None = None) -> Call[Any]:
        """Return the call that publishes a payload; `number` is that of its line."""
        return message_calls.publish(
            topic,
            payload,
            headers=self.headers,
            key=self.key,
            delay_seconds=self.delay,
            at=self.at,
            ttl_seconds=self.ttl,
            priority=self.priority,
            dedup_id=self.dedup_id if number is None or self.dedup_id is None else f"{self.dedup_id}-{number}",
            unique_key=self.unique_key,
            replace=self.replace,
        )


@flags.command(
    epilog="Examples: miniqueue pub orders 'hello' · miniqueue pub orders < order.json · "
    "miniqueue pub orders --lines < orders.jsonl"
)
@flags.argument("topic", type=TOPIC)
@flags.argument("payload", type=PAYLOAD, required=False)
@flags.flag("--lines", is_flag=True, help="Publish each line of standard input as a message.")
@flags.flag("--key", type=PAYLOAD, help="Key: messages of one key go to one partition.")
@flags.flag("--delay", type=DURATION, help="Deliver after this time.")
@flags.flag("--at", type=TIME, help="Deliver at this time.")
@flags.flag("--ttl", type=POSITIVE_DURATION, help="Do not deliver after this time.")
@flags.flag("--priority", type=Choice(["high", "normal", "low"]), help="Deliver those of a higher priority first.")
@flags.flag("--header", "headers", type=HEADER, multiple=True, help="Header; can be repeated.")
@flags.flag("--dedup-id", type=NAME, help="Publish only once under this id; with --lines, under id-<number of line>.")
@flags.flag("--unique-key", type=PAYLOAD, help="Publish only if no message with this key waits.")
@flags.flag("--replace", is_flag=True, help="Replace the waiting message with the unique key.")
@flags.flag("--reply-within", type=POSITIVE_DURATION, help="Wait this long for a reply, and print it, not the id.")
@flags.flag("-q", "--quiet", is_flag=True, help="Print no ids.")
@with_output
@connected
def command(
    client: BrokerClient,
    *,
    topic: str,
    payload: bytes | None,
    lines: bool,
    reply_within: float | None,
    quiet: bool,
    output: Output,
    **options: Any,  # noqa: ANN401 - values of flags
) -> None:
    """Publish PAYLOAD to TOPIC, or standard input if there is no payload, and print the id of the message.

    When the id is printed, the message is durable. With --lines, each line of standard input is a message, published
    as soon as it has arrived; lines that arrive together are published together.

    With -o json or jsonl, each message is an object on a line, with "duplicate" if it was not stored since it is
    a duplicate.
    """
    own = Options(**options)
    if own.replace and own.unique_key is None:
        raise ConfigError(["flag --replace: requires --unique-key"])
    if lines and (payload is not None or reply_within is not None):
        raise ConfigError(["flag --lines: cannot be used with a payload, or with --reply-within"])
    report = _ignore if quiet else _reporting(topic, output)
    if lines:
        _publish_lines(client, topic, own, output, report)
        return
    content = _standard_input() if payload is None else payload
    if reply_within is not None:
        _request(client, topic, content, own, reply_within, output)
        return
    report([_publish(client, own.call(topic, content), len(content))])


def _publish(client: BrokerClient, call: Call[Any], size: int) -> Any:  # noqa: ANN401 - what the call returns
    """Carry out a publish; an error that the size of the payload can cause says so."""
    try:
        return client.execute(call)
    except ServerError as exc:
        raise _named_if_too_large(exc, size) from exc
    except DisconnectedError as exc:
        if size < _SUSPICIOUS_BYTES:
            raise
        # The broker closes the connection while most of the payload is not sent, which can hide its reply.
        hint = f"the payload has {size} bytes, perhaps more than the broker accepts (-max-message-size)"
        raise DisconnectedError(f"{exc}; {hint}") from exc


def _named_if_too_large(refusal: ServerError, size: int) -> ServerError:
    """Return a refusal; one for a payload that is too large, whose text is about the protocol, with its size."""
    if _TOO_LARGE not in str(refusal):
        return refusal
    return ServerError(f"the payload has {size} bytes, more than the broker accepts (-max-message-size)")


def _standard_input() -> bytes:
    if sys.stdin.isatty():
        raise ConfigError(["missing argument PAYLOAD; or redirect standard input, as in `miniqueue pub orders < file`"])
    return sys.stdin.buffer.read()


def _request(client: BrokerClient, topic: str, payload: bytes, own: Options, seconds: float, output: Output) -> None:
    if own.delay is not None or own.at is not None or own.dedup_id is not None or own.unique_key is not None:
        raise ConfigError(["flag --reply-within: cannot be used with --delay, --at, --dedup-id, or --unique-key"])
    reply = client.request(
        topic,
        payload,
        timeout_seconds=seconds,
        headers=own.headers,
        key=own.key,
        ttl_seconds=own.ttl,
        priority=own.priority,
    )
    output.write_bytes((terminal_payload(reply) if output.is_terminal else reply) + b"\n")


def _reporting(topic: str, output: Output) -> Callable[[Sequence[Any]], None]:
    """Return what prints the ids of messages."""

    def report(ids: Sequence[Any]) -> None:
        if output.form == "table":
            output.write("".join(f"{message_id}\n" for message_id in ids))
            return
        output.objects(
            {"topic": topic, "id": str(message_id), **({"duplicate": True} if message_id.is_duplicate else {})}
            for message_id in ids
        )

    return report


def _ignore(_ids: Sequence[Any]) -> None:
    pass


def _publish_lines(
    client: BrokerClient, topic: str, own: Options, output: Output, report: Callable[[Sequence[Any]], None]
) -> None:
    """Publish each line of standard input; raises ServerError with the number of the first line that is refused."""
    published = 0
    max_count = min(_MAX_BATCH, MAX_AT_ONCE // (_WORDS + _HEADER_WORDS * len(own.headers)))
    is_shown = not output.is_terminal or report is _ignore
    with progress("publishing", is_wanted=is_shown) as advance:
        for batch in batches(sys.stdin.buffer, max_count, _MAX_BATCH_BYTES):
            try:
                outcomes = _publish_batch(client, topic, own, batch)
            except (ConnectError, DisconnectedError) as exc:  # a batch can be stored although its reply is lost
                known = f"{counted(published, 'line')} published, later ones perhaps"
                raise DisconnectedError(f"{exc}; {known}") from exc
            ids = [outcome for outcome in outcomes if not isinstance(outcome, RefusedError)]
            report(ids)
            published += len(ids)
            advance(len(ids))
            for line, outcome in zip(batch, outcomes, strict=True):
                if isinstance(outcome, RefusedError):
                    refusal = explained(outcome, own.call(topic, line.content).words)
                    reason = _named_if_too_large(refusal, len(line.content))
                    raise ServerError(f"line {line.number}: {reason}; {counted(published, 'line')} published")


def _publish_batch(client: BrokerClient, topic: str, own: Options, batch: Sequence[Line]) -> list[Any]:
    """Publish lines, in one commit if that can be; return the id, or the refusal, of each."""
    if own.fits_a_batch:
        messages = [Outgoing(line.content, own.headers, own.key, own.ttl) for line in batch]
        try:
            ids = client.publish_each(topic, messages)
        except ServerError:
            pass  # all were refused because of some, which are looked for one after the other
        else:
            return [PublishedId(each, is_duplicate=ids.is_duplicate) for each in ids]
    calls: list[Call[Any]] = [own.call(topic, line.content, line.number) for line in batch]
    return client.execute_all(calls)
