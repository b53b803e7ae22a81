"""The steps of a message in order."""

from miniqueue.broker.trace_steps import Place, Step, merged

HERE, DEAD = Place(b"t", 0, 1), Place(b"t.dlq", 0, 0)


def test_a_message_does_not_arrive_before_it_left():
    """Both are noted in one act, and a millisecond may begin between them."""
    found = {
        DEAD: [Step(DEAD, "arrived", 99, other=HERE), Step(DEAD, "delivered", 120)],
        HERE: [Step(HERE, "published", 50), Step(HERE, "rejected", 100), Step(HERE, "dead_lettered", 100, other=DEAD)],
    }
    assert [step.event for step in merged(found)] == ["published", "rejected", "dead_lettered", "arrived", "delivered"]
