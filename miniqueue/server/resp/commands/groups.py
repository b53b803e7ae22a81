"""GROUP: the groups that read a topic independently of each other.

    GROUP CREATE letters audit FROM latest       GROUP DELETE letters audit       GROUP LIST letters
    GROUP MEMBERS letters audit ─▶ the partitions of each member
    GROUP SEEK letters audit 0-17 DRYRUN ─▶ how many messages are ahead of the group now, and would be

`core.options.start` parses where a group starts.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from types import MappingProxyType

from miniqueue.core.options.start import Edge, parse_start
from miniqueue.errors import RequestError
from miniqueue.server.resp.commands.arguments import check_arity, options_of, shown, unknown_subcommand
from miniqueue.server.resp.commands.context import Client, answer_later
from miniqueue.server.views.groups import shown_group, shown_members
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.resp_parser import Command


def group(client: Client, command: Command) -> bytes:
    """Carry out GROUP; the reply comes later, and the commands after it wait."""
    act = SUBCOMMANDS.get(command[1].upper())
    if act is None:
        raise unknown_subcommand(command)
    return answer_later(client, act(client, command))


def _create(client: Client, command: Command) -> Awaitable[bytes]:
    check_arity(len(command) >= 4, -4)
    options = options_of(command, 4, (b"FROM",))
    start = parse_start(options[b"FROM"]) if b"FROM" in options else Edge.EARLIEST
    return _done(client.broker.groups.create(command[2], command[3], start))


def _delete(client: Client, command: Command) -> Awaitable[bytes]:
    check_arity(len(command) == 4, 4)
    return _done(client.broker.groups.delete(command[2], command[3]))


def _seek(client: Client, command: Command) -> Awaitable[bytes]:
    check_arity(len(command) in (5, 6), -5)
    if len(command) == 6 and command[5].upper() != b"DRYRUN":
        raise RequestError(f"syntax error at '{shown(command[5])}'")
    start, groups, protocol = parse_start(command[4]), client.broker.groups, client.session.protocol

    async def seek() -> bytes:
        result = await groups.seek(command[2], command[3], start, is_dry=len(command) == 6)
        return replies.encode({"before": result.before, "after": result.after}, protocol)

    return seek()


def _list(client: Client, command: Command) -> Awaitable[bytes]:
    check_arity(len(command) == 3, 3)
    protocol = client.session.protocol

    async def listed() -> bytes:
        async with aclosing(client.broker.groups.figures(command[2])) as groups:
            return replies.array([replies.encode(shown_group(group), protocol) async for group in groups])

    return listed()


def _members(client: Client, command: Command) -> Awaitable[bytes]:
    check_arity(len(command) == 4, 4)
    protocol = client.session.protocol

    async def listed() -> bytes:
        figures = await client.broker.groups.figures_of(command[2], command[3])
        return replies.encode(shown_members(figures), protocol)

    return listed()


async def _done(act: Awaitable[None]) -> bytes:
    await act
    return replies.OK


#: Subcommands, by name in capitals.
SUBCOMMANDS: Mapping[bytes, Callable[[Client, Command], Awaitable[bytes]]] = MappingProxyType(
    {b"CREATE": _create, b"DELETE": _delete, b"SEEK": _seek, b"LIST": _list, b"MEMBERS": _members}
)
