"""Traces in the tools: `check` accepts sound ones, and reports in words what is wrong with others."""

import pytest

from miniqueue.core.cursor.recording import Kind
from miniqueue.storage.format import trace_keys, traces
from miniqueue.storage.format.keys import Space
from miniqueue.storage.format.traces import TraceState
from miniqueue.tools.audit import problems
from tests.broker.support import run
from tests.tools.test_audit_of_retention import problems_of

TOPIC_ID = 1


def traced_store() -> dict[bytes, bytes]:
    """Return a store with a topic that is traced, and traces of each sort."""

    async def body(world):
        await world.broker.admin.create(b"t", {"trace": True}).wait()
        await world.publish(b"t", b"a")
        await world.broker.groups.create(b"t", b"g")
        await world.broker.groups.delete(b"t", b"g")

    return run(body).store.pairs()


def value(seq: int = 0) -> bytes:
    ((_, encoded),) = traces.encode_rows([(Kind.PURGED, seq, 1, 0, b"", b"", 0)], 0)
    return encoded


@pytest.mark.parametrize(
    ("key", "bad", "said"),
    [
        (trace_keys.trace(TOPIC_ID, 0, 1, 0), value(0), "partition 0, block 1, serial 0): is of messages"),
        (trace_keys.trace(TOPIC_ID, 0, 0, 9999), value(), "(size of the traces of topic 1): says that the numbers"),
        (trace_keys.trace(TOPIC_ID, 7 << 16, 0, 0), value(), "there is no such partition"),
        (trace_keys.trace(TOPIC_ID, trace_keys.SHELF, 0, 0), b"x", "of delayed messages, block 0, serial 0): trace"),
        (trace_keys.trace(TOPIC_ID, trace_keys.GROUPS, 0, 0), b"x", "of groups, block 0, serial 0): trace: checksum"),
        (trace_keys.traces(TOPIC_ID), b"x", "(size of the traces of topic 1): traces: checksum"),
        (trace_keys.trace(2, 0, 0, 0), value(), "there is no such topic"),
    ],
)
def test_what_is_wrong_with_a_trace_is_told_in_words(key, bad, said):
    sound = traced_store()
    assert not problems_of(sound)
    assert any(said in problem for problem in problems_of(sound | {key: bad}))


def test_how_much_is_stored_may_be_told_of_no_traces():
    assert not problems_of(
        {key: one for key, one in traced_store().items() if key[0] != Space.TRACE}
        | {trace_keys.traces(TOPIC_ID): traces.encode_traces(TraceState(5, 6))}
    )


@pytest.mark.parametrize("space", Space)
def test_there_are_words_for_the_keys_of_every_space(space):
    assert space in problems._WORDS
