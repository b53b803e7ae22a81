"""GROUP over RESP: who reads a topic, independently of others.

    GROUP CREATE letters audit FROM latest       GROUP DELETE letters audit       GROUP LIST letters
    GROUP MEMBERS letters audit ─▶ the partitions of each member
    GROUP SEEK letters audit 0-17 DRYRUN ─▶ how many messages the group has to get now, and would have

Where a group may begin stands in `core.group_start`.
"""

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from miniqueue.core.group_start import Edge, parse_start
from miniqueue.errors import RequestError
from miniqueue.server.groups_shown import shown_group, shown_members
from miniqueue.server.resp_errors import ArityError, shown, unknown_subcommand
from miniqueue.server.resp_looking import answer_later, options_of
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.resp_parser import Command

if TYPE_CHECKING:
    from miniqueue.server.resp import RespConnection


def group(connection: "RespConnection", command: Command) -> bytes:
    """Carry out GROUP; commands behind it wait for its end."""
    act = SUBCOMMANDS.get(command[1].upper())
    if act is None:
        raise unknown_subcommand(command)
    return answer_later(connection, act(connection, command))


def _create(connection: "RespConnection", command: Command) -> Awaitable[bytes]:
    _check_arity(len(command) >= 4, -4)
    options = options_of(command, 4, (b"FROM",))
    start = parse_start(options[b"FROM"]) if b"FROM" in options else Edge.EARLIEST
    return _done(connection.broker.groups.create(command[2], command[3], start))


def _delete(connection: "RespConnection", command: Command) -> Awaitable[bytes]:
    _check_arity(len(command) == 4, 4)
    return _done(connection.broker.groups.delete(command[2], command[3]))


def _seek(connection: "RespConnection", command: Command) -> Awaitable[bytes]:
    _check_arity(len(command) in (5, 6), -5)
    if len(command) == 6 and command[5].upper() != b"DRYRUN":
        raise RequestError(f"syntax error at '{shown(command[5])}'")
    start, groups, protocol = parse_start(command[4]), connection.broker.groups, connection.session.protocol

    async def seek() -> bytes:
        found = await groups.seek(command[2], command[3], start, is_dry=len(command) == 6)
        return replies.encode({"before": found.before, "after": found.after}, protocol)

    return seek()


def _list(connection: "RespConnection", command: Command) -> Awaitable[bytes]:
    _check_arity(len(command) == 3, 3)
    protocol = connection.session.protocol

    async def listed() -> bytes:
        figures = await connection.broker.groups.figures(command[2])
        return replies.array([replies.encode(shown_group(one), protocol) for one in figures])

    return listed()


def _members(connection: "RespConnection", command: Command) -> Awaitable[bytes]:
    _check_arity(len(command) == 4, 4)
    protocol = connection.session.protocol

    async def listed() -> bytes:
        figures = await connection.broker.groups.figures_of(command[2], command[3])
        return replies.encode(shown_members(figures), protocol)

    return listed()


async def _done(act: Awaitable[None]) -> bytes:
    await act
    return replies.OK


def _check_arity(is_right: bool, arity: int) -> None:
    if not is_right:
        raise ArityError(arity)


#: By name in capitals.
SUBCOMMANDS: "Mapping[bytes, Callable[[RespConnection, Command], Awaitable[bytes]]]" = MappingProxyType(
    {b"CREATE": _create, b"DELETE": _delete, b"SEEK": _seek, b"LIST": _list, b"MEMBERS": _members}
)
