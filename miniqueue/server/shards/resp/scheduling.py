"""SCHEDULE at a door: the home shard of the name orders changes, and says which shard has it, `links.scheduling`."""

from collections.abc import Awaitable, Callable

from miniqueue.server.resp.commands.schedules import parse_set
from miniqueue.server.shards.links.peers import Peers
from miniqueue.server.shards.links.scheduling import ask_owner, order_delete, order_set
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.resp_parser import Command


def changes_schedules(command: Command) -> bool:
    """Return whether a command sets or deletes a schedule, and has enough words for that."""
    if command[0].upper() != b"SCHEDULE" or len(command) < 3:
        return False
    return len(command) >= 7 if command[1].upper() == b"SET" else len(command) == 3 and command[1].upper() == b"DELETE"


async def change_schedule(peers: Peers, spread_of: Callable[[bytes], int], command: Command) -> bytes:
    """Return the reply to such a command; raises MiniqueueError."""
    if command[1].upper() == b"DELETE":
        return await order_delete(peers, command[2])
    reply = await order_set(peers, *parse_set(command), spread_of)
    return reply if reply.startswith(b"-") else replies.OK


def is_about_schedule(command: Command) -> bool:
    """Return whether a command shows a schedule, or publishes its message, and has enough words for that."""
    return command[0].upper() == b"SCHEDULE" and len(command) == 3 and command[1].upper() in (b"GET", b"FIRE")


async def ask_for_schedule(peers: Peers, ask: Callable[[int, Command], Awaitable[bytes]], command: Command) -> bytes:
    """Return the reply to such a command, which is that of the shard with the schedule; raises ShardAwayError."""

    async def ask_shard(shard: int) -> bytes:
        return await ask(shard, command)

    return await ask_owner(peers, command[2], ask_shard, lambda reply: reply.startswith(b"-NOSCHEDULE"))
