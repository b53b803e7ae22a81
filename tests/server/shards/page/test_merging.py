"""What shards show, made one."""

from miniqueue.core.settings.quotas import NO_QUOTAS
from miniqueue.server.shards.page import merging
from miniqueue.server.shards.page.wholes import whole_rows


def finding(level, kind="dead", topic="t"):
    return {"level": level, "kind": kind, "topic": topic, "group": None, "text": "", "side": None, "sinceMs": 1}


def overview(**changes):
    facts = {
        "version": "1",
        "startedAtMs": 5,
        "minFreeBytes": 1,
        "diskFreeBytes": 70,
        "memory": {"limitBytes": 10, "usedBytes": 2, "rssBytes": 3, "purposes": {"topics": 2}},
        "loopLagSeconds": {"p50": 0.1, "p99": 0.2, "max": 0.3},
    }
    return {
        "attention": [],
        "attentionMore": 0,
        "totals": {"topics": 1, "publishedPerSecond": 0.1, "connections": 1},
        "oldest": None,
        "broker": facts,
        "topics": [],
    } | changes


def test_the_overview_adds_what_shards_have():
    one = overview(topics=[{"topic": "small", "ready": 1}])
    two = overview(topics=[{"topic": "large", "ready": 2}])
    merged = merging.overview([one, two])
    assert merged["totals"] == {"topics": 2, "publishedPerSecond": 0.2, "connections": 2}
    assert [row["topic"] for row in merged["topics"]] == ["large", "small"]
    assert merged["broker"]["memory"] == {
        "limitBytes": 20,
        "usedBytes": 4,
        "rssBytes": 6,
        "purposes": {"topics": 4},
    }
    assert merged["broker"]["diskFreeBytes"] == 70


def test_the_oldest_message_is_that_of_all_shards():
    ages = [None, {"topic": "old", "atMs": 1}, {"topic": "young", "atMs": 2}]
    assert merging.overview([overview(oldest=oldest) for oldest in ages])["oldest"] == ages[1]
    assert merging.overview([overview(), None])["oldest"] is None


def test_the_worst_findings_come_first_and_topics_that_have_one_before_those_that_have_none():
    one = overview(attention=[finding("note", topic="a")], topics=[{"topic": "a", "ready": 0}])
    two = overview(
        attention=[finding("critical", topic="b"), *[finding("warning", topic=f"c{n}") for n in range(4)]],
        attentionMore=2,
        topics=[{"topic": "b", "ready": 1}, {"topic": "most", "ready": 9}],
    )
    merged = merging.overview([one, two])
    assert [each["level"] for each in merged["attention"]] == ["critical"] + ["warning"] * 4
    assert merged["attentionMore"] == 3
    assert [row["topic"] for row in merged["topics"]] == ["b", "a", "most"]


def test_a_shard_that_does_not_answer_needs_attention_before_all_else():
    merged = merging.overview([overview(attention=[finding("critical")]), None])
    assert [(each["kind"], each["text"]) for each in merged["attention"]] == [
        ("away", "shard 1 does not answer; its topics are unavailable"),
        ("dead", ""),
    ]


def test_a_user_who_may_not_see_the_broker_sees_nothing_of_it_in_sums():
    hidden = overview(broker=None, totals={"topics": 1, "publishedPerSecond": 0.0, "connections": None})
    merged = merging.overview([hidden, hidden])
    assert merged["broker"] is None
    assert merged["totals"]["connections"] is None


def counts(**changes):
    return {
        "version": "1",
        "startedAtMs": 5,
        "topics": 2,
        "ready": 3,
        "dead": 0,
        "deadGrows": False,
        "consumers": 1,
        "schedules": 1,
        "attention": 1,
        "critical": 0,
        "refused": None,
    } | changes


def test_the_counts_of_the_sidebar_are_sums_and_a_shard_that_is_away_is_critical():
    merged = merging.totals([counts(), None, counts(deadGrows=True, refused="FULL")])
    assert merged == counts(
        topics=4, ready=6, consumers=2, schedules=2, attention=3, critical=1, deadGrows=True, refused="FULL"
    )
    assert merging.totals([counts(schedules=None), counts(schedules=None)])["schedules"] is None


def line(first_ms, **series):
    return {"stepSeconds": 20, "firstMs": first_ms, "series": series}


def test_lines_are_added_point_by_point_even_if_a_process_is_younger():
    merged = merging.history([line(100_000, ready=[1, None, 3]), line(120_004, ready=[None, 10])])
    assert merged == line(100_000, ready=[1, None, 13])


def test_lines_without_points_are_no_lines():
    empty = line(None, ready=[])
    assert merging.history([empty, line(20_000, ready=[2])]) == line(20_000, ready=[2])
    assert merging.history([None, empty]) == empty


def broker(**changes):
    return (
        overview()["broker"]
        | {
            "ready": {"status": "ok", "refused": [], "reasons": []},
            "storeBytes": 4,
            "limits": [{"name": "topics", "used": 1, "limit": 5, "flag": "-max-topics"}],
            "usage": [],
            "followers": [],
            "tasks": [],
            "process": {"processId": 1},
        }
        | changes
    )


def test_the_broker_shows_each_shard_and_the_limits_of_all_together():
    degraded = broker(ready={"status": "degraded", "refused": ["publish"], "reasons": ["the disk is full"]})
    merged = merging.broker(lambda _: NO_QUOTAS, [broker(), None, degraded])
    assert merged["ready"] == {
        "status": "degraded",
        "refused": ["publish"],
        "reasons": ["shard 1 does not answer", "shard 2: the disk is full"],
    }
    assert merged["limits"] == [{"name": "topics", "used": 2, "limit": 10, "flag": "-max-topics"}]
    assert [(row["shard"], row["status"]) for row in merged["shards"]] == [(0, "ok"), (1, "away"), (2, "degraded")]


def test_tasks_are_listed_by_number():
    merged = merging.broker(lambda _: NO_QUOTAS, [broker(tasks=[{"id": "10"}]), broker(tasks=[{"id": "9"}])])
    assert [task["id"] for task in merged["tasks"]] == ["9", "10"]


def test_dead_letters_that_grow_come_first():
    rows = [{"topic": "a", "grown": 0, "dead": 9}, {"topic": "b", "grown": 1, "dead": 1}]
    parts = [{"total": 1, "matching": 1, "topics": [row]} for row in rows]
    assert [row["topic"] for row in merging.dead("", parts)["topics"]] == ["b", "a"]


def test_who_holds_most_comes_first():
    parts = [
        {
            "total": 1,
            "connections": [{"id": 1}],
            "holders": [{"group": "g", "user": str(leased), "address": None, "leased": leased}],
        }
        for leased in (1, 2)
    ]
    merged = merging.connections(parts)
    assert [row["leased"] for row in merged["holders"]] == [2, 1]
    assert merged["total"] == 2
    assert "holders" not in merging.connections([{"total": 0, "connections": []}])


def test_a_consumer_of_all_parts_of_a_topic_is_one():
    row = {"topic": "orders\x1f0", "state": "fine", "sinceMs": None, "ready": 1, "consumers": 1}
    [whole] = whole_rows([row, row | {"topic": "orders\x1f1", "consumers": 2}])
    assert whole == row | {"topic": "orders", "ready": 2, "consumers": 2, "deadLetterTopic": None}
