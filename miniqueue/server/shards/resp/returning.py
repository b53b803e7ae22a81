"""Messages that a shard has leased for a client that cannot have them: they return to their topics at once.

    the client has left before its reply ─┬─▶ the receipts in the reply ─▶ RETURN, over a new link ─▶ front of the topic
    another shard has answered first ─────┘

They are counted as `disconnects`, as in one process. A reply of which a part has been sent is not returned.
"""

from collections.abc import Callable, Iterator
from typing import Final

import hiredis

from miniqueue.core.cursor.receipts import part_of_receipt
from miniqueue.core.message.partitioning import indexes_by_number
from miniqueue.core.message.parts import part_name
from miniqueue.errors import MiniqueueError
from miniqueue.server.resp.commands.context import Client, ClientGoneError
from miniqueue.server.shards.links.link import Link

#: The order to return messages; the topic and the receipts follow.
RETURN: Final = b"RETURN"


def leased_in(
    reply: bytes, topic: bytes | None, spread_of: Callable[[bytes], int]
) -> Iterator[tuple[bytes, list[bytes]]]:
    """Yield the topics of the messages in a reply, with their receipts; parts of spread topics, each for itself.

    Args:
      reply: the reply to a RECEIVE of `topic`, or to RECEIVEANY if that is None; an error leases nothing.
      topic: the name that clients know.
      spread_of: returns the number of parts of a topic, 0 if it has none.
    """
    if reply.startswith(b"-"):
        return
    reader = hiredis.Reader()
    reader.feed(reply)
    answer = reader.gets()
    for name, messages in answer if topic is None else [(topic, answer)]:
        receipts = [receipt for receipt, *_ in messages if receipt]  # there is none if it was acknowledged
        part_count = spread_of(name)
        if not part_count:
            yield name, receipts
            continue
        indexes = indexes_by_number([part_of_receipt(receipt) % part_count for receipt in receipts])
        for number, own in indexes.items():
            yield part_name(name, number), [receipts[index] for index in own]


def take_back(open_link: Callable[[bytes], Link], topic: bytes, receipts: list[bytes]) -> None:
    """Return messages to the front of their topic; `open_link` returns a new link to its shard."""
    try:
        link = open_link(topic)
    except MiniqueueError:
        return  # the shard has ended, and its leases with it, or it stands still, and they expire
    link.give_order(RETURN, topic, *receipts)
    link.close_when_answered()


def is_there(client: Client) -> bool:
    """Return whether a client gets the replies to its commands."""
    try:
        client.check_client()
    except ClientGoneError:
        return False
    return not client.is_closing
