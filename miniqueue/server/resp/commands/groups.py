"""GROUP: the groups that read a topic independently of each other.

    GROUP CREATE letters audit FROM latest       GROUP DELETE letters audit       GROUP LIST letters
    GROUP CREATE letters browser-7 EPHEMERAL IDLE 30 ─▶ ends 30 s after its last consumer
    GROUP MEMBERS letters audit ─▶ the partitions of each member
    GROUP HOLDERS letters audit ─▶ which users and addresses hold leases of receives
    GROUP SEEK letters audit 0-17 DRYRUN ─▶ how many messages are ahead of the group now, and would be

`core.options.start` parses where a group starts.
"""

from collections.abc import Callable, Coroutine, Mapping
from contextlib import aclosing
from types import MappingProxyType
from typing import Any

from miniqueue.core.options.start import parse_start
from miniqueue.core.settings.group_options import parse_group_options
from miniqueue.errors import RequestError
from miniqueue.server.resp.commands.context import Client, answer_later
from miniqueue.server.views.groups import shown_group, shown_members
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.resp_arguments import check_arity, options_of, shown, unknown_subcommand
from miniqueue.wire.resp_parser import Command


def group(client: Client, command: Command) -> bytes:
    """Carry out GROUP; the reply comes later, and the commands after it wait."""
    act = SUBCOMMANDS.get(command[1].upper())
    if act is None:
        raise unknown_subcommand(command)
    return answer_later(client, act(client, command))


def _create(client: Client, command: Command) -> Coroutine[Any, Any, bytes]:
    check_arity(len(command) >= 4, -4)
    words = command[:4] + [word for word in command[4:] if word.upper() != b"EPHEMERAL"]
    options = options_of(words, 4, (b"FROM", b"IDLE"))
    named = {name.decode().lower(): value for name, value in options.items()}
    if len(words) < len(command):
        named["ephemeral"] = b"true"
    parsed = parse_group_options(named)

    async def create() -> bytes:
        await client.broker.groups.create(command[2], command[3], parsed.start, parsed.own_settings)
        return replies.OK

    return create()


def _delete(client: Client, command: Command) -> Coroutine[Any, Any, bytes]:
    check_arity(len(command) == 4, 4)

    async def delete() -> bytes:
        await client.broker.groups.delete(command[2], command[3])
        return replies.OK

    return delete()


def _seek(client: Client, command: Command) -> Coroutine[Any, Any, bytes]:
    check_arity(len(command) in (5, 6), -5)
    if len(command) == 6 and command[5].upper() != b"DRYRUN":
        raise RequestError(f"syntax error at '{shown(command[5])}'")
    start, groups, protocol = parse_start(command[4]), client.broker.groups, client.session.protocol

    async def seek() -> bytes:
        result = await groups.seek(command[2], command[3], start, is_dry=len(command) == 6)
        return replies.encode({"before": result.before, "after": result.after}, protocol)

    return seek()


def _list(client: Client, command: Command) -> Coroutine[Any, Any, bytes]:
    check_arity(len(command) == 3, 3)
    protocol = client.session.protocol

    async def listed() -> bytes:
        async with aclosing(client.broker.groups.figures(command[2])) as groups:
            return replies.array([replies.encode(shown_group(group), protocol) async for group in groups])

    return listed()


def _members(client: Client, command: Command) -> Coroutine[Any, Any, bytes]:
    check_arity(len(command) == 4, 4)
    protocol = client.session.protocol

    async def listed() -> bytes:
        figures = await client.broker.groups.figures_of(command[2], command[3])
        return replies.encode(shown_members(figures), protocol)

    return listed()


def _holders(client: Client, command: Command) -> Coroutine[Any, Any, bytes]:
    check_arity(len(command) == 4, 4)
    protocol = client.session.protocol

    async def listed() -> bytes:
        holders = await client.broker.leases.holders(command[2], command[3])
        return replies.array([replies.encode(dict(holder._asdict().items()), protocol) for holder in holders])

    return listed()


#: Subcommands, by name in capitals.
SUBCOMMANDS: Mapping[bytes, Callable[[Client, Command], Coroutine[Any, Any, bytes]]] = MappingProxyType(
    {b"CREATE": _create, b"DELETE": _delete, b"SEEK": _seek, b"LIST": _list, b"MEMBERS": _members, b"HOLDERS": _holders}
)
