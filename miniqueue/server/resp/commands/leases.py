"""LEASES over RESP: which messages are leased, under which receipts, and for how long.

    LEASES                        what this connection holds: its stream, and what it took with GET
    LEASES topic                  the same of one topic
    LEASES topic GROUP g          what any connection can settle: the leases of RECEIVE, POST …/receive and GET
    LEASES topic MEMBER m         what a member of the group holds, its streams included

    S: [[topic, orders, partition, 0, group, default, id, 0-17, receipt, 5f0c-17, remaining_ms, 29500], …]

Version 3 of RESP has maps in place of the inner arrays.
"""

from itertools import islice
from typing import TYPE_CHECKING

from miniqueue.access.rights import Right
from miniqueue.access.users import is_permitted
from miniqueue.broker.inspect.peeked import parse_count
from miniqueue.broker.leases.listing import MAX_COUNT, HeldMessage, parse_after
from miniqueue.core.message.names import check_topic
from miniqueue.server.resp.commands.context import Client, answer_later
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.resp_arguments import options_of
from miniqueue.wire.resp_parser import Command

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def leases(client: Client, command: Command) -> bytes:
    """Carry out LEASES."""
    options, protocol = options_of(command, 2, (b"GROUP", b"MEMBER", b"COUNT", b"AFTER")), client.session.protocol
    count = parse_count(options[b"COUNT"]) if b"COUNT" in options else MAX_COUNT
    after = parse_after(options[b"AFTER"]) if b"AFTER" in options else 0
    if not options.keys() & {b"GROUP", b"MEMBER"}:
        own = _own(client, check_topic(command[1]) if len(command) > 1 else None)
        if after:
            own = (held for held in own if held.receipt.isdigit() and int(held.receipt) > after)
        return _encode(islice(own, count), protocol)

    async def reply() -> bytes:
        group, member = options.get(b"GROUP"), options.get(b"MEMBER")
        return _encode(await client.broker.leases.of_group(command[1], group, member, after, count), protocol)

    return answer_later(client, reply())


def _own(client: Client, topic: bytes | None) -> "Iterator[HeldMessage]":
    """Yield what a connection holds of a topic, or of all that its user may consume: that of its stream first."""
    user = client.user

    def is_listed(name: bytes) -> bool:
        return topic in (None, name) and is_permitted(user, Right.CONSUME, name)

    if client.stream is not None and is_listed(client.stream.topic):
        yield from client.stream.leases()
    for name, receipt in sorted((topic, message.receipt) for topic, message in client.held.items()):
        held = client.broker.leases.of_receipt(name, receipt) if is_listed(name) else None
        if held is not None:
            yield held


def _encode(listed: "Iterable[HeldMessage]", protocol: int) -> bytes:
    return replies.array([replies.encode(dict(held._asdict().items()), protocol) for held in listed])
