"""The RESP commands that pause topics: PAUSE topic [IN|OUT|BOTH] [seconds], RESUME topic [IN|OUT|BOTH].

The reply comes when the pause is durable; it takes effect at once.
"""

from typing import TYPE_CHECKING

from miniqueue.core.delay import parse_delay
from miniqueue.core.pause import Side, parse_side
from miniqueue.server.resp_errors import ArityError
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.resp_parser import Command

if TYPE_CHECKING:
    from miniqueue.server.resp import RespConnection


def pause(connection: "RespConnection", command: Command) -> bytes:
    """Carry out PAUSE."""
    words = [word.decode("utf-8", "replace") for word in command[2:]]
    seconds = parse_delay(words.pop()) if words and not words[-1].isalpha() else None
    if len(words) > 1:
        raise ArityError(4)
    side = parse_side(words[0]) if words else Side.BOTH
    connection.wait_for(connection.broker.pauser.pause(command[1], side, seconds), replies.OK)
    return b""


def resume(connection: "RespConnection", command: Command) -> bytes:
    """Carry out RESUME."""
    if len(command) > 3:
        raise ArityError(3)
    side = parse_side(command[2].decode("utf-8", "replace")) if len(command) == 3 else Side.BOTH
    connection.wait_for(connection.broker.pauser.resume(command[1], side), replies.OK)
    return b""
