"""Frees unique keys of messages that the group with which they leave their topic has not: it was deleted, or moved.

    store: key, id of a message ─ in the log, and not settled ─▶ stays
                                ├ came back                   ─▶ stays
                                ├ not due yet                 ─▶ stays
                                └ else                        ─▶ free

It costs what the topic has in unique keys and, if there are any to free, in messages that came back to the group.
"""

from miniqueue.broker import counting
from miniqueue.broker.journal import Journal
from miniqueue.broker.opening import PAGE_ITEMS, pages
from miniqueue.broker.topic import Topic
from miniqueue.core.cursor_view import Unsettled
from miniqueue.core.delayed_id import DelayedId, parse_any_id
from miniqueue.storage import dedup_keys, records

#: A unique key, and the id of a message that has it.
_Claim = tuple[bytes, bytes]


async def free_keys(journal: Journal, topic: Topic) -> None:
    """Free the keys of a topic whose messages do not wait in its `key_group`; raises StorageError, UnavailableError."""
    topic_id = topic.id
    found: list[_Claim] = []
    if topic_id is None:
        return
    await journal.committer.flush()  # keys of messages that are gone by now are gone then
    async for key, _ in pages(journal.store, dedup_keys.unique_range(topic_id)):
        found.append(dedup_keys.unique_key_and_message_id(key))
        if len(found) >= PAGE_ITEMS:
            await _free(journal, topic, topic_id, found)
            found = []
    await _free(journal, topic, topic_id, found)


async def _free(journal: Journal, topic: Topic, topic_id: int, found: list[_Claim]) -> None:
    """Free those of the keys whose messages do not wait."""
    places = {one: place for one in found if not isinstance(place := parse_any_id(one[1]), DelayedId)}
    group = topic.key_group if topic.id == topic_id else None
    if group is None or not places:
        return
    in_log = {cursor.partition: Unsettled(cursor) for cursor in group.cursors}
    gone = {one: place for one, place in places.items() if place[0] in in_log and place[1] not in in_log[place[0]]}
    if gone:
        await journal.committer.flush()  # what came back is in the store then
    for number in {number for number, _ in gone.values()}:
        returned = await _returned(journal, topic_id, number, group.id or 0)
        gone = {one: place for one, place in gone.items() if place[0] != number or place[1] not in returned}
    if gone and topic.id == topic_id and topic.key_group is group:
        for claim in gone:
            topic.unique_keys.take(*claim)
        journal.touch(topic)
        await journal.committer.flush()


async def _returned(journal: Journal, topic_id: int, number: int, group_id: int) -> set[int]:
    snapshot = await journal.store.snapshot()  # or who is moved from one range to another may be in neither
    try:
        found = pages(snapshot, counting.records_of(topic_id, number, group_id))
        return {records.decode_record(value).seq async for _, value in found}
    finally:
        await snapshot.close()
