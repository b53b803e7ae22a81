"""The steps of a message in order."""

from miniqueue.broker.traces.steps import Step, TracePosition, merged

HERE, DEAD = TracePosition(b"t", 0, 1), TracePosition(b"t.dlq", 0, 0)


def test_a_message_does_not_arrive_before_it_left():
    """Both are noted in one act, and a millisecond may begin between them."""
    found = {
        DEAD: [Step(DEAD, "arrived", 99, other=HERE), Step(DEAD, "delivered", 120)],
        HERE: [Step(HERE, "published", 50), Step(HERE, "rejected", 100), Step(HERE, "dead_lettered", 100, other=DEAD)],
    }
    assert [step.event for step in merged(found)] == ["published", "rejected", "dead_lettered", "arrived", "delivered"]


def test_times_never_go_back_however_many_places_a_message_has_been_at():
    again = TracePosition(b"t", 0, 2)
    found = {
        again: [Step(again, "arrived", 98, other=DEAD), Step(again, "delivered", 98)],
        DEAD: [Step(DEAD, "arrived", 99, other=HERE), Step(DEAD, "redriven", 99, other=again)],
        HERE: [Step(HERE, "published", 50), Step(HERE, "dead_lettered", 100, other=DEAD)],
    }
    assert [(step.event, step.at_ms) for step in merged(found)] == [
        ("published", 50),
        ("dead_lettered", 100),
        ("arrived", 100),
        ("redriven", 100),
        ("arrived", 100),
        ("delivered", 100),
    ]
