"""The rules of what needs attention, as a table: what was observed, and what is found."""

import pytest

from miniqueue.broker.inspect.attention import (
    BrokerSeen,
    GroupSeen,
    Kind,
    Level,
    LimitUse,
    TopicSeen,
    finding,
    in_order,
    of_broker,
    of_topic,
    shown_bytes,
    shown_seconds,
)

NOW_MS = 1_700_000_000_000
OLD = NOW_MS - 288_000


def group(**seen):
    return TopicSeen(b"orders", groups=[GroupSeen(b"mail", **{"ready": 1204} | seen)])


TOPICS = [
    (TopicSeen(b"orders"), []),
    (TopicSeen(b"orders", "a chunk is damaged"), [(Kind.DAMAGED, "The topic cannot be read: a chunk is damaged.")]),
    (
        group(growth=930, oldest_at_ms=OLD),
        [
            (
                Kind.BEHIND,
                "The backlog grew by 930 in 60 s; 1,204 are ready, and the oldest was published 4 min 48 s ago.",
            )
        ],
    ),
    (group(growth=0, oldest_at_ms=OLD), []),
    (group(growth=-5, oldest_at_ms=OLD), []),
    (group(growth=None, oldest_at_ms=OLD), []),
    (group(growth=930, oldest_at_ms=NOW_MS - 60_000), []),
    (group(growth=930, oldest_at_ms=None), []),
    (group(unread_seconds=7440), [(Kind.NO_CONSUMERS, "1,204 ready, and no consumer for 2 h 4 min.")]),
    (group(unread_seconds=59.9), []),
    (group(unread_seconds=60, consumers=1), []),
    (group(unread_seconds=60, ready=0), []),
    (group(unread_seconds=60, is_paused=True), [(Kind.PAUSED, "Deliveries to the group are paused.")]),
    (
        group(growth=930, oldest_at_ms=OLD, is_paused=True),
        [(Kind.PAUSED, "Deliveries to the group are paused.")],  # which is why it grows
    ),
    (group(unread_seconds=60)._replace(has_letters=True), []),
    (group(growth=930, oldest_at_ms=OLD)._replace(has_letters=True), []),  # the topic of the letters is named
    (
        group(growth=930, oldest_at_ms=OLD, unread_seconds=60)._replace(is_paused_out=True),
        [(Kind.PAUSED, "Nothing is delivered: the topic is paused.")],
    ),
    (
        TopicSeen(b"orders", dead=1204, dead_growth=12),
        [(Kind.DEAD, "Dead letters: 12 more in 15 minutes, 1,204 in total.")],
    ),
    (TopicSeen(b"orders", dead=1204), []),
    (TopicSeen(b"orders", dead=1204, dead_growth=-4), []),
    (
        TopicSeen(b"orders", missed_growth=1000),
        [(Kind.MISSED, "1,000 messages were removed in 15 minutes before a group had read them.")],
    ),
    (
        TopicSeen(b"orders", limits=[LimitUse("messages", 900, 1000), LimitUse("bytes", 899, 1000, is_bytes=True)]),
        [(Kind.LIMIT, "messages: 90% of the limit, 900 of 1,000.")],
    ),
    (TopicSeen(b"orders", limits=[LimitUse("messages", 10**9, None)]), []),
    (TopicSeen(b"orders", is_paused_in=True), [(Kind.PAUSED, "Publishes are refused: the topic is paused.")]),
    (
        TopicSeen(b"orders", is_paused_in=True, is_paused_out=True),
        [(Kind.PAUSED, "The topic is paused: publishes are refused, and nothing is delivered.")],
    ),
]


@pytest.mark.parametrize(("seen", "findings"), TOPICS)
def test_what_is_found_in_a_topic(seen, findings):
    found = list(of_topic(seen, NOW_MS))
    assert [(each.kind, each.text) for each in found] == findings
    assert {each.topic for each in found} <= {b"orders"}


BROKERS = [
    (BrokerSeen(), []),
    (
        BrokerSeen("The disk is full"),
        [(Kind.REFUSED, "Publishes are refused: The disk is full.")],
    ),
    (
        BrokerSeen(free_bytes=511 << 20, min_free_bytes=256 << 20),
        [(Kind.DISK, "The disk has 511 MiB free; publishes are refused below 256 MiB.")],
    ),
    (BrokerSeen(free_bytes=512 << 20, min_free_bytes=256 << 20), []),
    (BrokerSeen(free_bytes=None, min_free_bytes=256 << 20), []),
    (
        BrokerSeen(limits=[LimitUse("topics", 19_000, 20_000, "-max-topics"), LimitUse("partitions", 1, 10)]),
        [(Kind.LIMIT, "topics: 95% of the limit, 19,000 of 20,000 (-max-topics).")],
    ),
    (
        BrokerSeen(limits=[LimitUse("memory", 2 << 30, 2 << 30, "-max-memory", is_bytes=True)]),
        [(Kind.LIMIT, "memory: 100% of the limit, 2.0 GiB of 2.0 GiB (-max-memory).")],
    ),
]


@pytest.mark.parametrize(("seen", "findings"), BROKERS)
def test_what_is_found_in_the_broker(seen, findings):
    found = list(of_broker(seen))
    assert [(each.kind, each.text) for each in found] == findings
    assert {(each.topic, each.group) for each in found} <= {(b"", b"")}


def test_no_consumers_is_dated_by_the_last_one():
    (found,) = of_topic(group(unread_seconds=90), NOW_MS)
    assert (found.group, found.since_ms) == (b"mail", NOW_MS - 90_000)


def test_the_worst_is_first():
    findings = [
        finding(Kind.PAUSED, b"a", b"", ""),
        finding(Kind.DEAD, b"a", b"", "", 5),
        finding(Kind.DEAD, b"b", b"", "", 50),
        finding(Kind.BEHIND, b"c", b"", "", 1),
        finding(Kind.REFUSED, b"", b"", ""),
        finding(Kind.NO_CONSUMERS, b"c", b"", "", 1),
    ]
    assert [(each.kind, each.topic) for each in in_order(findings)] == [
        (Kind.REFUSED, b""),
        (Kind.BEHIND, b"c"),
        (Kind.NO_CONSUMERS, b"c"),
        (Kind.DEAD, b"b"),
        (Kind.DEAD, b"a"),
        (Kind.PAUSED, b"a"),
    ]
    assert [kind.level for kind in Kind] == sorted(kind.level for kind in Kind)
    assert {kind.level for kind in Kind} == set(Level)


def test_the_limits_of_one_topic_are_different_findings():
    limits = [LimitUse("messages", 9, 10), LimitUse("bytes", 9, 10, is_bytes=True)]
    messages, size = of_topic(TopicSeen(b"orders", limits=limits), NOW_MS)
    assert messages.key != size.key
    (more,) = of_topic(TopicSeen(b"orders", limits=[LimitUse("messages", 10, 10)]), NOW_MS)
    assert more.key == messages.key


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (59, "59 s"),
        (288, "4 min 48 s"),
        (1920, "32 min"),
        (3600, "1 h"),
        (8040, "2 h 14 min"),
        (90_000, "1 d 1 h"),
        (86_400 * 12, "12 d"),
    ],
)
def test_durations_as_people_read_them(seconds, text):
    assert shown_seconds(seconds) == text


@pytest.mark.parametrize(
    ("size_bytes", "text"), [(0, "0 B"), (250, "250 B"), (2150, "2.1 KiB"), (61 << 30, "61 GiB"), (1 << 60, "1024 PiB")]
)
def test_sizes_as_people_read_them(size_bytes, text):
    assert shown_bytes(size_bytes) == text
