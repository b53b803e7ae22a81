"""Makes room in topics that are full: drops the messages that have waited longest, or makes them dead letters.

    publish ─▶ Journal.trim_soon ─▶ trim, directly before the commit that includes the new messages:
                         take_oldest ─▶ drop, or dead-letter ─▶ … until the topic is within its limits
                              └ not in memory ─▶ load a page, continue

So the removals and the additions are in one commit. Leased messages are never dropped; messages that were returned
only if no others wait. The time to drop depends on the number of chunks concerned, the time to make dead letters on the
number of messages. Other tasks run in between.
"""

import asyncio

from miniqueue.broker.dead_letters import dead_letters
from miniqueue.broker.engine.engine import Engine
from miniqueue.broker.engine.load import load
from miniqueue.broker.model.limits import Room
from miniqueue.broker.model.topic import Topic
from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.cursor.lease import Range
from miniqueue.core.group import removing
from miniqueue.core.log.partition import MAX_CHUNK_MESSAGES
from miniqueue.core.settings.fields import LimitPolicy
from miniqueue.errors import MiniqueueError

#: Maximum size that one commit drops from a topic in excess of what it adds. So if a limit was lowered, the topic
#: reaches it over several commits.
MAX_BYTES_PER_COMMIT = 8 << 20
#: Size that counts for each dropped run, or each new dead letter, in addition to its bytes: it takes 10 to 30 µs.
WORK_BYTES = 1 << 10
#: Maximum size dropped in one iteration of the event loop, so that other tasks run in between.
MAX_BYTES_IN_TURN = 512 << 10
#: Maximum number of messages that become dead letters in one step, for the same reason.
MAX_DEAD_LETTERS_AT_ONCE = 256


async def trim(engine: Engine) -> None:
    """Trim all topics that are marked as over their limits, before the next commit."""
    over, engine.journal.over = engine.journal.over, {}
    for topic in over:
        if await _trim(engine, topic):
            engine.journal.trim_soon(topic)


async def _trim(engine: Engine, topic: Topic) -> bool:
    """Trim a topic; return whether the next commit must continue."""
    if topic.id is None:
        return False  # deleted after it was marked
    remaining_bytes = MAX_BYTES_PER_COMMIT + topic.uncommitted_bytes + WORK_BYTES * topic.uncommitted_count
    turn_bytes = MAX_BYTES_IN_TURN
    while topic.id is not None and (excess := _giving_way(engine, topic)).is_over:
        if remaining_bytes <= 0:
            return True
        dropped_bytes = _drop(engine, topic, excess)
        if dropped_bytes is not None:
            remaining_bytes -= dropped_bytes
            turn_bytes -= dropped_bytes
            if turn_bytes <= 0:
                turn_bytes = MAX_BYTES_IN_TURN
                await asyncio.sleep(0)
            continue
        cursor = next((cursor for cursor in topic.cursors if cursor.blocked_on is not None), None)
        if cursor is None or topic.group_of(cursor).is_loading:
            break  # no message waits, or a page is being loaded: the topic is trimmed after that
        if cursor.blocked_on is not Range.LOG and cursor.changes.records:
            return True  # these records must be in the store before the rest of their range is loaded
        if not await _load(engine, topic, cursor):
            break
    return False


def _giving_way(engine: Engine, topic: Topic) -> Room:
    """Return how much must be removed; nothing if the policy is now to refuse, which may have changed meanwhile."""
    is_refusing = engine.limits.policy_of(topic) is LimitPolicy.REFUSE
    return Room(0, 0) if is_refusing else engine.limits.excess(topic)


def _drop(engine: Engine, topic: Topic, excess: Room) -> int | None:
    """Drop the next waiting messages that are in memory, at most `excess`; return their size, or None if none wait.

    The size includes `WORK_BYTES` for the work. The messages are those of the group with the largest backlog: the
    lowest priority first, then the oldest first.
    """
    group = topic.last_group or topic.default
    is_dead_lettered = engine.limits.policy_of(topic) is LimitPolicy.DEAD_LETTER
    wanted = _within(excess, dead_letters.room_left(engine, topic)) if is_dead_lettered else excess
    for cursor in removing.oldest_first(group.cursors) if wanted.is_over else ():
        lease = removing.take_oldest(
            cursor, *wanted, MAX_DEAD_LETTERS_AT_ONCE if is_dead_lettered else MAX_CHUNK_MESSAGES
        )
        if lease is not None:
            if is_dead_lettered:
                dead_letters.dead_letter_oldest(engine, topic, cursor, lease)
            else:
                cursor.drop(lease)
            removing.hold_back(cursor)
            engine.journal.touch(topic)
            return lease.size_bytes + WORK_BYTES * (lease.count if is_dead_lettered else 1)
        if cursor.blocked_on is not None:
            break
    return None


async def _load(engine: Engine, topic: Topic, cursor: GroupCursor) -> bool:
    """Load the page that a cursor lacks; return whether that succeeded."""
    assert cursor.blocked_on is not None
    group = topic.group_of(cursor)
    try:
        await load(engine, group, cursor, cursor.blocked_on, _nothing_to_flush)
    except MiniqueueError:
        return False  # the next consumer that reads it gets the error
    return True


def _within(excess: Room, remaining: Room) -> Room:
    """Return the part of `excess` that fits in the `remaining` room of the dead-letter topic.

    If little room remains, the part is limited by the number of messages. The bytes that remain are no limit: messages
    were admitted because there was room for them, and a message grows when it becomes a dead letter.
    """
    if remaining.messages <= 0:
        return Room(0, 0)
    if remaining.messages < MAX_CHUNK_MESSAGES:
        return Room(max(1, min(excess.messages, remaining.messages)), 0)
    return excess


async def _nothing_to_flush() -> None:
    """Do nothing: no commit is in progress, and no record of the range waits for one."""
