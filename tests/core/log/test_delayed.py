"""Messages that are not due: which of them the store may not contain yet."""

from miniqueue.core.log.delayed import NO_DELAYS, Delayed, PartitionDelays

A, B = Delayed(0, 1, b"a"), Delayed(0, 1, b"b")


def test_a_message_is_in_memory_until_its_commit_is_done():
    delays = PartitionDelays(NO_DELAYS)
    first = delays.add(5, A)
    assert delays.unwritten(first) == A
    delays.cut()
    second = delays.add(5, B)
    assert (delays.unwritten(first), delays.unwritten(second)) == (A, B)
    delays.cut()
    delays.commit(delays.state)
    assert (delays.unwritten(first), delays.unwritten(second)) == (None, B)
    delays.commit(delays.state)
    assert (delays.unwritten(second), delays.committed) == (None, delays.state)


def test_a_message_that_was_removed_before_its_commit_is_not_in_memory():
    delays = PartitionDelays(NO_DELAYS)
    position = delays.add(5, A)
    delays.remove(position, A)
    assert delays.unwritten(position) is None
    assert delays.state.message_count == 0
