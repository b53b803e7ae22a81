"""`miniqueue sub`: prints messages, or runs a program for each, and acknowledges them."""

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from miniqueue.commands.messages.consuming import TURNS_PER_LEASE, Consumer, Handle, Order
from miniqueue.commands.messages.parallel import MAX_CONSUMERS, run_all, shares_of
from miniqueue.commands.messages.program import Programs, run_program
from miniqueue.commands.messages.span import span_of
from miniqueue.commands.messages.stopping import stopping_on_signals
from miniqueue.commands.messages.writing import message_writer, with_message_output
from miniqueue.commands.shell import flags
from miniqueue.commands.shell.connecting import BrokerClient, connected
from miniqueue.commands.shell.outage import Outage
from miniqueue.commands.shell.topic_names import TOPIC
from miniqueue.commands.shell.values import COUNT, DURATION, FILE_OR_FOLDER, NAME, POSITIVE_DURATION, TIME, whole_number
from miniqueue.errors import ConfigError, ServerError
from miniqueue.server.process.escaping import quote
from miniqueue_client import Message

#: Messages that are received together when they are only printed.
_BATCH: Final = 100
_SOME_FAILED: Final = 1
_LEASE_SECONDS: Final = 30.0


@flags.command(
    epilog="Examples: miniqueue sub orders · miniqueue sub orders --count 10 -o jsonl · "
    "miniqueue sub orders -- ./handle.sh"
)
@flags.argument("topic", type=TOPIC)
@flags.argument("program", nargs=-1, type=FILE_OR_FOLDER, metavar="[-- PROGRAM [ARGUMENTS]…]")
@flags.flag("--group", type=NAME, help="Group to read as.  [default: default]")
@flags.flag("--member", type=NAME, help="Member of the group, which has partitions of its own.")
@flags.flag("--count", type=COUNT, help="End after this number of messages.")
@flags.flag("--until-empty", is_flag=True, help="End when no message is ready.")
@flags.flag(
    "--lease",
    type=POSITIVE_DURATION,
    default=_LEASE_SECONDS,
    help="Lease of each message; it is extended while the message is handled.  [default: 30s]",
)
@flags.flag("--from-time", type=TIME, help="Read what is retained from this time on, with a group of its own, and end.")
@flags.flag("--to-time", type=TIME, help="Read what was published before this time.  [default: now]")
@flags.flag("--retry-after", type=DURATION, help="Redeliver a failed message after this time.")
@flags.flag("-j", "--parallel", type=whole_number(1, MAX_CONSUMERS), help="Run this many programs at a time.")
@flags.flag("--reply", is_flag=True, help="Send what the program prints to the client that waits for a reply.")
@with_message_output
@connected
def command(client: BrokerClient, topic: str, program: tuple[str, ...], **options: Any) -> int:  # noqa: ANN401 - values of flags
    """Print the messages of TOPIC as they come, and acknowledge each after it was written.

    With PROGRAM, run it for each message instead: the payload is its standard input, and variables such as MESSAGE_ID,
    MESSAGE_KEY, and MESSAGE_HEADER_NAME are in its environment. A message is acknowledged if the program ends with exit
    code 0, and returned otherwise.

    Ctrl-C and SIGTERM let the message in hand be finished, and return the others. A second signal also ends the
    program, and its message is returned.

    Exit codes: 0 done; 1 a program failed; 69 the broker cannot be reached, or refuses; 130 or 143 a signal.
    """
    _check(program, options)
    with stopping_on_signals() as stopping, _order_for(client, topic, bool(program), options) as order:
        programs, outage = Programs(), Outage(_warn)
        handle = _running(client, program, programs, options["reply"], order) if program else _printing(options)
        consumers = [
            Consumer(client, replace(order, max_count=count), handle, stopping, _warn, outage)
            for count in shares_of(order.max_count, options["parallel"] or 1)
        ]
        run_all(consumers, stopping, programs.end)
    stopping.raise_if_asked()
    return _SOME_FAILED if any(consumer.failed_count for consumer in consumers) else 0


def _check(program: tuple[str, ...], options: dict[str, Any]) -> None:
    """Raise ConfigError for flags that contradict each other, and for a program that does not exist."""
    if program and shutil.which(program[0]) is None:
        raise ConfigError([f"argument PROGRAM: no such program: {quote(program[0])}"])
    of_program = options["reply"], options["retry_after"], options["parallel"]
    if not program and any(value not in (None, False) for value in of_program):
        raise ConfigError(["flags --reply, --retry-after, and --parallel: require a program, after --"])
    if options["to_time"] is not None and options["from_time"] is None:
        raise ConfigError(["flag --to-time: requires --from-time"])
    if options["from_time"] is not None and (options["group"] or options["member"]):
        raise ConfigError(["flag --from-time: reads with a group of its own; leave out --group and --member"])


@contextmanager
def _order_for(client: BrokerClient, topic: str, has_program: bool, options: dict[str, Any]) -> Iterator[Order]:
    """Yield what to consume; the group of a span exists while the block runs."""
    order = Order(
        topic,
        group=options["group"],
        member=options["member"],
        lease_seconds=options["lease"],
        max_count=options["count"],
        batch_count=1 if has_program else _BATCH,
        ends_when_empty=options["until_empty"] or options["from_time"] is not None,
        retry_seconds=options["retry_after"],
    )
    if options["from_time"] is None:
        yield order
        return
    with span_of(client, topic, options["from_time"], options["to_time"]) as span:
        yield replace(order, group=span.group, accepts=span.contains, is_over=span.is_read)


def _printing(options: dict[str, Any]) -> Handle:
    write = message_writer(options["form"], options["null"])

    def handle(message: Message, _extend: Callable[[], None]) -> str:
        write(message)
        return ""

    return handle


def _running(client: BrokerClient, program: tuple[str, ...], programs: Programs, replies: bool, order: Order) -> Handle:
    environ = flags.shell().environ

    def handle(message: Message, extend: Callable[[], None]) -> str | None:
        is_request = replies and bool(message.reply_to)
        every_seconds = order.lease_seconds / TURNS_PER_LEASE
        ended = run_program(
            program, message, environ, programs, keeps_output=is_request, every_seconds=every_seconds, tick=extend
        )
        if is_request and not ended.failure:
            return _send_reply(client, message, ended.output)
        return ended.failure

    return handle


def _send_reply(client: BrokerClient, message: Message, payload: bytes) -> str | None:
    """Reply, which settles the message; return "" if no client waits for the reply any more."""
    try:
        client.reply(message.topic, message, payload)
    except ServerError as exc:
        if exc.code != "GONE":
            raise
        return ""
    return None


def _warn(text: str) -> None:
    sys.stderr.write(f"miniqueue: {text}\n")  # in one piece, since consumers are threads
    sys.stderr.flush()
