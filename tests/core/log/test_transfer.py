"""Which transfers have arrived: each once, whatever is lost, repeated, late, or refused."""

from hypothesis import given
from hypothesis import strategies as st

from miniqueue.core.log.transfer import Parcel, Received


def test_all_up_to_the_last_have_arrived_except_those_that_are_missing():
    received = Received().after([3, 7], [5])
    assert received == Received(7, frozenset({5}))
    assert [number for number in range(1, 9) if not received.has(number)] == [5, 8]
    assert received.after([5], []) == Received(7)


def test_what_the_source_does_not_have_any_more_is_missing_no_longer():
    assert Received(7, frozenset({5, 6})).after([8], [6]) == Received(8, frozenset({6}))


def test_a_late_parcel_does_not_forget_what_is_missing_after_it():
    assert Received(7, frozenset({3, 5})).after([3], []) == Received(7, frozenset({5}))


def test_numbers_that_were_refused_behind_the_last_one_can_still_come():
    assert Received(7).after([8], [9]) == Received(8)


@given(st.data())
def test_each_transfer_is_accepted_exactly_once(data):
    outbox = set(data.draw(st.lists(st.integers(1, 40), max_size=12, unique=True)))
    wanted, received, accepted = set(outbox), Received(), []
    sent: list[Parcel] = []
    for _ in range(data.draw(st.integers(0, 25))):
        if outbox and data.draw(st.booleans()):
            chosen = sorted(data.draw(st.sets(st.sampled_from(sorted(outbox)), min_size=1)))
            held = sorted(number for number in outbox if number < chosen[-1] and number not in chosen)
            sent.append(Parcel(held, [(number, b"") for number in chosen]))
        if not sent:
            continue
        held, transfers = sent[data.draw(st.integers(0, len(sent) - 1))]
        new = [number for number, _ in transfers if not received.has(number) and data.draw(st.booleans())]
        accepted += new
        received = received.after(new, {*held, *(number for number, _ in transfers)}.difference(new))
        assert len(received.missing) <= len(wanted)
        outbox -= {number for number in outbox if received.has(number) and data.draw(st.booleans())}
    for number in sorted(outbox):
        if not received.has(number):
            accepted.append(number)
            received = received.after([number], [other for other in outbox if other < number])
    assert sorted(accepted) == sorted(wanted)
