"""PUB with unique keys over RESP: those of a pipeline are published together, for one look at the store and one commit.

    PUB t a UNIQUE 1   PUB t b UNIQUE 2   PUB t c   PUB t d UNIQUE 1   LEN t
    └ holds the connection, takes what comes next ─▶ looked up, published ─▶ committed ─▶ goes on with LEN
                                                                             └ a reply for each

What is taken are the PUB behind the first one, with a unique key or without, up to the first other command and to a
bound, beyond which the next ones are taken together. Each is checked as it would be alone.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import structlog

from miniqueue.broker import Accepted
from miniqueue.broker.unique_publishing import Asked
from miniqueue.core.publish_options import PublishOptions, parse_words
from miniqueue.errors import InternalError, MiniqueueError, PayloadTooLargeError
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.resp_parser import Command
from miniqueue.wire.resp_runs import Run

if TYPE_CHECKING:
    from miniqueue.server.resp import RespConnection

log = structlog.get_logger()

#: So many are published together, in one turn of the loop; a little more than a usual pipeline has.
MAX_TOGETHER: Final = 128
#: As large are all together, but for the first and the last.
MAX_TOGETHER_BYTES: Final = 64 << 10
_WORDS: Final = 3


def publish(connection: "RespConnection", first: Asked) -> bytes:
    """Publish a message when it is known who has its key, with those that come next; the replies come later."""
    connection.hold()
    task = asyncio.get_running_loop().create_task(_publish(connection, first))
    connection.tasks.add(task)
    task.add_done_callback(connection.tasks.discard)
    return b""


def marked(reply: bytes, accepted: Accepted) -> bytes:
    """Return a reply with whether it is that of a duplicate."""
    return replies.array([reply, replies.integer(accepted.is_duplicate)])


async def _publish(connection: "RespConnection", first: Asked) -> None:
    together = [first, *(_asked(connection, command) for command in connection.take_next(_Bound().lets))]
    asked = [one for one in together if isinstance(one, Asked)]
    results = await _results(connection, asked)
    try:
        if not connection.is_closing:
            _reply_all(connection, together, iter(results))
        for commit in {result.commit for result in results if isinstance(result, Accepted)}:
            with suppress(MiniqueueError):  # the replies tell
                await commit.wait()
    finally:
        connection.release(b"")


async def _results(connection: "RespConnection", asked: list[Asked]) -> Sequence[Accepted | MiniqueueError]:
    try:
        return await connection.broker.publish_several(asked)
    except Exception:  # a bug of ours must not leave the connection held for ever
        log.exception("PUB failed")
        return [InternalError("internal error, the broker's log has it")] * len(asked)


def _reply_all(
    connection: "RespConnection",
    together: list[Asked | MiniqueueError],
    results: Iterator[Accepted | MiniqueueError],
) -> None:
    """Queue the replies; `results` are those of the messages that were not refused."""
    for one in together:
        if isinstance(one, Asked):
            _reply(connection, next(results), one.options)
        else:
            connection.reply(replies.error(one.code, str(one)))


class _Bound:
    """Tells what may be taken together."""

    def __init__(self) -> None:
        self._left, self._left_bytes = MAX_TOGETHER - 1, MAX_TOGETHER_BYTES

    def lets(self, command: Command | Run) -> bool:
        """Whether a command is a PUB, and within the bound."""
        if isinstance(command, Run) or command[0].upper() != b"PUB" or len(command) < _WORDS:
            return False
        is_within = self._left > 0 and self._left_bytes > 0
        self._left -= 1
        self._left_bytes -= sum(map(len, command))
        return is_within


def _asked(connection: "RespConnection", command: Command | Run) -> Asked | MiniqueueError:
    """Return what a command asks for, or why it is refused."""
    assert not isinstance(command, Run)  # none is taken
    try:
        if connection.guard is not None:
            connection.guard.check(command)
        return Asked(command[1], command[2], parse_words(command[_WORDS:]))
    except MiniqueueError as exc:
        return exc


def _reply(connection: "RespConnection", result: Accepted | MiniqueueError, options: PublishOptions) -> None:
    """Queue what became of a message."""
    if not isinstance(result, MiniqueueError):
        answer(connection, result, options)
        return
    if isinstance(result, PayloadTooLargeError):
        connection.broker.limit_counts.note(result)
    connection.reply(replies.error(result.code, str(result)))


def answer(connection: "RespConnection", accepted: Accepted, options: PublishOptions) -> None:
    """Queue the reply to a PUB; it comes with its commit."""
    connection.note_uncommitted(accepted.size_bytes)
    message_id = replies.bulk(accepted.message_id)
    is_marked = options.dedup_id or options.unique_key
    connection.wait_for(accepted.commit, marked(message_id, accepted) if is_marked else message_id)
