"""The end of a link at which parcels arrive: the inbox takes them."""

from miniqueue.broker.inbox.inbox import Inbox
from miniqueue.errors import MiniqueueError
from miniqueue.server.shards.links.answering import Answer
from miniqueue.server.shards.transfers.sending import decode_parcel, encode_taken
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.resp_parser import Command


def arriving(inbox: Inbox, source: int) -> Answer:
    """Return what gives the parcels of another shard, with this number, to the inbox."""

    async def take(command: Command) -> bytes:
        try:
            return replies.bulk(encode_taken(await inbox.take(source, decode_parcel(command[1:]))))
        except MiniqueueError as exc:
            return replies.error(exc.code, str(exc))

    return take
