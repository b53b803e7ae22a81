"""Removes what deleted topics leave behind, a page at a time, beside the normal work."""

from collections.abc import Awaitable, Callable

from miniqueue.broker.opening import PAGE_BYTES, PAGE_ITEMS
from miniqueue.storage import keys
from miniqueue.storage.port import Batch, Store


async def purge(store: Store, topic_id: int, commit: Callable[[Batch], Awaitable[None]]) -> None:
    """Delete every key of a topic that is no longer registered, and give its disk space back.

    It can be broken off anywhere: the topic's purge entry goes last, and a restart begins again.
    """
    for start, stop in keys.of_topic(topic_id):
        unseen = start
        while pairs := await store.scan(unseen, stop, max_items=PAGE_ITEMS, max_bytes=PAGE_BYTES):
            await commit({key: None for key, _ in pairs})
            unseen = pairs[-1][0]  # never scan over what has just been deleted
    await commit({keys.purge(topic_id): None})
    for start, stop in keys.of_topic(topic_id):
        await store.reclaim(start, stop)
