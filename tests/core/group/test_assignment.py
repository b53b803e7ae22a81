from hypothesis import given
from hypothesis import strategies as st

from miniqueue.core.group.assignment import assign, shares_in_part

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


members_of_parts = st.lists(st.binary(min_size=1, max_size=5), unique=True, min_size=1, max_size=12)


@given(members_of_parts, st.integers(0, 12), st.integers(1, 20))
def test_members_get_equal_shares_of_all_parts_of_a_spread_topic_whatever_their_number(members, partitions, parts):
    totals = dict.fromkeys(members, 0)
    for part in range(parts):
        shares = shares_in_part(members, partitions, part)
        assert sum(shares.values()) == partitions
        assert max(shares.values()) - min(shares.values()) <= 1
        for name, share in shares.items():
            totals[name] += share
        assert max(totals.values()) - min(totals.values()) <= 1


@given(members_of_parts, st.integers(0, 12), st.integers(0, 63))
def test_a_part_computes_the_shares_of_members_whoever_came_first(members, partitions, part):
    assert shares_in_part(members, partitions, part) == shares_in_part(members[::-1], partitions, part)


@given(members_of_parts, st.integers(0, 12), st.integers(0, 63))
def test_members_of_a_part_get_the_shares_that_they_are_given(members, partitions, part):
    shares = shares_in_part(members, partitions, part)
    before = assign(members, range(partitions), {}, shares)
    assert {name: [*before.values()].count(name) for name in members} == shares
    assert assign(members, range(partitions), before, shares) == before


def test_most_parts_of_others_stay_when_a_member_joins():
    moved = total = 0
    for seed in range(20):
        names = [b"worker-%d-%d" % (seed, number) for number in range(7)]
        for part in range(64):
            before, after = (shares_in_part(members, 1, part) for members in (names[:6], names))
            moved += any(after[name] > before[name] for name in names[:6])
            total += 1
    assert moved < 0.45 * total
