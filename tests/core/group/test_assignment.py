from hypothesis import given
from hypothesis import strategies as st

from miniqueue.core.group.assignment import assign

names = st.lists(st.sampled_from("abcdefghij"), unique=True, max_size=10)
counts = st.integers(0, 40)


@st.composite
def situations(draw):
    """Members, partitions, and their owners before; some owners are no members now, some partitions had none."""
    partitions = range(draw(counts))
    owners = {number: draw(st.sampled_from("abcdefghijxyz")) for number in partitions if draw(st.booleans())}
    return draw(names), partitions, owners


def sizes(members, assigned):
    return [sum(owner == member for owner in assigned.values()) for member in members]


def test_nobody_has_a_partition_where_nobody_is():
    assert assign([], range(8), {}) == {}


def test_the_first_has_all_and_the_next_half_of_them():
    first = assign(["a"], range(4), {})
    assert first == dict.fromkeys(range(4), "a")
    assert assign(["a", "b"], range(4), first) == {0: "a", 1: "a", 2: "b", 3: "b"}


def test_who_joins_takes_a_part_of_each():
    before = {**dict.fromkeys(range(4), "a"), **dict.fromkeys(range(4, 8), "b")}
    after = assign(["a", "b", "c"], range(8), before)
    assert {number: after[number] for number in (0, 1, 2, 4, 5, 6)} == {
        number: before[number] for number in (0, 1, 2, 4, 5, 6)
    }
    assert after[3] == after[7] == "c"


@given(situations())
def test_every_partition_has_one_member_and_the_shares_are_even(situation):
    members, partitions, owners = situation
    assigned = assign(members, partitions, owners)
    if members:
        assert sorted(assigned) == list(partitions)
        shares = sizes(members, assigned)
        assert max(shares) - min(shares) <= 1


@given(situations())
def test_no_more_moves_than_must(situation):
    members, partitions, owners = situation
    assigned = assign(members, partitions, owners)
    if not members:
        return
    share, rest = divmod(len(partitions), len(members))
    had = sorted((sum(owner == member for owner in owners.values()) for member in members), reverse=True)
    kept_at_most = sum(min(count, share + (position < rest)) for position, count in enumerate(had))
    assert sum(assigned[number] == owners.get(number) for number in partitions) == kept_at_most


@given(situations())
def test_what_is_fair_stays_as_it_is(situation):
    members, partitions, owners = situation
    assigned = assign(members, partitions, owners)
    assert assign(members, partitions, assigned) == assigned


@given(situations(), st.data())
def test_who_leaves_moves_only_what_was_its_own(situation, data):
    members, partitions, owners = situation
    if len(members) < 2:
        return
    before = assign(members, partitions, owners)
    gone = data.draw(st.sampled_from(members))
    after = assign([member for member in members if member != gone], partitions, before)
    assert all(after[number] == before[number] for number in partitions if before[number] != gone)


@given(situations())
def test_who_joins_is_the_only_one_to_be_given_any(situation):
    members, partitions, owners = situation
    before = assign(members, partitions, owners)
    after = assign([*members, "new"], partitions, before)
    if members:
        assert all(after[number] in (before[number], "new") for number in partitions)
