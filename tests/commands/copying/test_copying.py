"""Copies between two real brokers."""

from itertools import count

import pytest

from miniqueue.commands.copying.copying import Choices, Copying, passes
from miniqueue.commands.copying.markers import MARKER_TOPIC
from miniqueue.errors import ConfigError, ServerError
from miniqueue_client import Client, RefusedError

NOW_MS = 1_700_000_000_000


class Refusing(Client):
    """A client whose transactions fail, before or after they are carried out."""

    fails = ""

    def _carry_out(self, calls):
        if self.fails == "before":
            raise ConnectionError
        results = super()._carry_out(calls)
        if self.fails == "after":
            raise ConnectionError
        return results


class Deleting(Client):
    """A client that deletes a topic before it reads its log."""

    def read(self, topic, *words, **options):
        self.delete_topic(topic)
        return super().read(topic, *words, **options)


def copying(source, target, *topics, **choices):
    moments = count()
    copying = Copying(source, target, Choices(topics, **choices), lambda: NOW_MS, lambda: float(next(moments)))
    copying.refresh()
    return copying


def copy_all(source, target, *topics, **choices):
    """Copy until nothing is left; return the number of messages copied."""
    current = copying(source, target, *topics, **choices)
    while current.round():
        pass
    assert current.lag == 0
    return current.copied_count


def logged(client, topic):
    """Return the messages of a topic, by partition: payload, key, headers, whether it expires."""
    return {
        bounds.partition: [
            (m.payload, m.key, m.headers, m.expires_at_ms > 0)
            for m in client.read(topic, bounds.partition, bounds.earliest, count=10_000).messages
        ]
        for bounds in client.partitions(topic)
    }


def test_a_copy_has_everything_that_publishers_set(source, target):
    source.create_topic("orders", partitions=4, max_deliveries=7, owner="ada")
    for n in range(50):
        source.publish("orders", f"message {n}", key=f"key {n % 7}", headers=[("a", "1"), ("a", "2")])
    source.publish("orders", b"\xff\x00", key="a", priority="high", ttl_seconds=1e9)
    source.publish("orders", b"last", key="a", priority="low")
    assert copy_all(source, target, "orders") == 52
    assert logged(target, "orders") == logged(source, "orders")
    assert target.topic_settings("orders")["max_deliveries"] == "7"
    assert target.topic_settings("orders")["owner"] == "default"


def test_a_copy_continues_where_it_was(source, target):
    source.publish_many("orders", [b"1", b"2"])
    assert copy_all(source, target, "orders") == 2
    assert copy_all(source, target, "orders") == 0
    source.publish_many("orders", [b"3"])
    assert copy_all(source, target, "orders") == 1
    assert [payload for payload, *_ in logged(target, "orders")["0"]] == [b"1", b"2", b"3"]


def test_many_messages_take_many_pages(source, target):
    payloads = [b"%d" % n for n in range(5000)]
    source.publish_many("orders", payloads)
    assert copy_all(source, target, "orders") == 5000
    assert [payload for payload, *_ in logged(target, "orders")["0"]] == payloads


@pytest.mark.parametrize("priority", [None, "high"])
@pytest.mark.parametrize("fails", ["before", "after"])
def test_a_lost_reply_neither_loses_nor_doubles(source, target, fails, priority):
    for n in range(10):
        source.publish("orders", b"%d" % n, priority=priority)
    with Refusing(target.address.url) as flaky:
        current = copying(source, flaky, "orders")
        flaky.fails = fails
        with pytest.raises(ConnectionError):
            current.round()
        source.publish("orders", b"10", priority=priority)
        flaky.fails = ""
        while current.round():
            pass
    [payloads] = [[payload for payload, *_ in messages] for messages in logged(target, "orders").values() if messages]
    assert payloads == [b"%d" % n for n in range(11)]
    assert current.copied_count == 11
    assert copy_all(source, target, "orders") == 0


def test_a_transaction_that_arrives_late_is_a_duplicate_as_a_whole(source, target):
    """A copy was killed. The broker hung, so it reads the last transaction of that copy after a second copy began."""
    source.publish_many("orders", [b"1", b"2"])
    late = copying(source, target, "orders")  # has read its marker: none
    source.publish_many("orders", [b"3"])
    assert copy_all(source, target, "orders") == 3
    while late.round():
        pass
    assert [payload for payload, *_ in logged(target, "orders")["0"]] == [b"1", b"2", b"3"]


def test_nothing_is_leased_and_nothing_is_deleted_before_it_is_copied(source, target):
    source.publish_many("orders", [b"1", b"2"])
    current = copying(source, target, "orders")
    source.receive("orders", count=2, autoack=True)
    assert source.length("orders") == 2
    assert source.length("orders", group="copy") == 2
    while current.round():
        pass
    assert source.length("orders", group="copy") == 0
    assert source.length("orders") == 0


def test_a_marker_is_never_delivered_and_there_is_one_for_each_topic(source, target):
    for topic in ("a", "b"):
        source.publish_many(topic, [b"1"])
    for _ in range(3):
        source.publish_many("a", [b"1"])
        copy_all(source, target, "a", "b")
    stats = target.stats(MARKER_TOPIC)
    assert (stats["delayed"], stats["ready"], stats["depth"]) == (2, 0, 2)


def test_expired_messages_are_left_out(source, target):
    source.publish("orders", b"1", ttl_seconds=1e9)
    source.publish("orders", b"2")
    current = copying(source, target, "orders")
    late = Copying(source, target, Choices(["orders"]), lambda: NOW_MS * 100, lambda: 0.0)
    late.refresh()
    late.round()
    assert [payload for payload, *_ in logged(target, "orders")["0"]] == [b"2"]
    assert late.copies["orders"].expired_count == 1
    assert current.copied_count == 0


@pytest.mark.parametrize(("start", "expected"), [("latest", [b"3"]), ("0-1", [b"2", b"3"])])
def test_a_copy_begins_where_it_is_told_to(source, target, start, expected):
    source.publish_many("orders", [b"1", b"2"])
    current = copying(source, target, "orders", start=start)
    source.publish_many("orders", [b"3"])
    while current.round():
        pass
    assert [payload for payload, *_ in logged(target, "orders")["0"]] == expected


def test_a_copy_can_begin_at_the_position_of_a_group(source, target):
    source.publish_many("orders", [b"1", b"2"])
    source.receive("orders", autoack=True)
    assert copy_all(source, target, "orders", start_of_group="default") == 1
    with pytest.raises(ConfigError, match="topic orders of the source has no group audit"):
        copying(source, target, "orders", name="other", start_of_group="audit")


def test_patterns_match_topics_that_are_created_later(source, target):
    source.publish("orders.eu", b"1")
    source.publish("letters", b"1")
    current = Copying(source, target, Choices((), ["orders.*"]), lambda: NOW_MS, lambda: 0.0)
    current.refresh()
    current.round()
    source.publish("orders.us", b"1")
    current.refresh()
    current.round()
    assert target.topics() == [MARKER_TOPIC, "orders.eu", "orders.us"]


def test_messages_that_the_source_deleted_are_counted(source, target):
    source.create_topic("orders", retention_messages=1, retention_drops_unread=True)
    current = copying(source, target, "orders")
    for n in range(5):
        source.publish("orders", b"%d" % n)
    bounds = source.partitions("orders")
    while bounds[0].earliest < 3:
        bounds = source.partitions("orders")
    while current.round():
        pass
    assert current.copies["orders"].missed_count == bounds[0].earliest
    assert current.copied_count + bounds[0].earliest == 5


def test_a_group_that_ends_when_it_is_idle_holds_messages_all_the_same(source, target):
    source.create_topic("orders", group_idle_seconds=60)
    copying(source, target, "orders")
    [group] = [group for group in source.groups("orders") if group.name == "copy"]
    assert group.idle_seconds == 1e9


def test_a_group_that_was_deleted_is_created_again(source, target):
    source.publish_many("orders", [b"1"])
    current = copying(source, target, "orders")
    source.delete_group("orders", "copy")
    while current.round():
        pass
    [group] = [group for group in source.groups("orders") if group.name == "copy"]
    assert group.position == ("0-1",)


def test_another_topic_of_the_same_name_is_refused(source, target):
    source.publish_many("orders", [b"1", b"2"])
    copy_all(source, target, "orders")
    source.delete_topic("orders")
    source.publish_many("orders", [b"1"])
    with pytest.raises(ServerError, match="another topic than the one that was copied; copy it under another --name"):
        copying(source, target, "orders").round()
    assert copy_all(source, target, "orders", name="again") == 1


def test_a_topic_that_is_deleted_meanwhile_is_no_longer_copied(source, target):
    source.publish("orders", b"1")
    current = copying(source, target, "orders")
    source.delete_topic("orders")
    assert current.round() == 0
    assert current.copies == {}


def test_a_topic_that_is_deleted_during_a_round_is_an_error_that_passes(source, target):
    source.publish("orders", b"1")
    with Deleting(source.address.url) as deleting:
        current = copying(deleting, target, "orders")
        with pytest.raises(RefusedError, match="NOTOPIC") as caught:
            current.round()
        assert passes(caught.value)
        assert current.round() == 0
    assert current.copies == {}


def test_a_target_without_dedup_ids_is_refused(source, target):
    source.publish("orders", b"1")
    target.create_topic("orders", dedup_window_seconds=0)
    with pytest.raises(ConfigError, match="topic orders of the target accepts no dedup ids"):
        copying(source, target, "orders")


def test_a_topic_that_does_not_exist_is_refused_and_not_created(source, target):
    with pytest.raises(ConfigError, match="the source has no topic orders"):
        copying(source, target, "orders")
    assert source.topics() == []


def test_a_full_target_is_an_error_that_passes(source, target):
    source.publish_many("orders", [b"1", b"2"])
    target.create_topic("orders", max_messages=1)
    current = copying(source, target, "orders")
    with pytest.raises(RefusedError) as caught:
        current.round()
    assert passes(caught.value)
    target.set_topic("orders", max_messages=0)
    assert current.round() == 2


def test_the_group_of_a_copy_that_is_done_is_deleted(source, target):
    source.publish_many("orders", [b"1"])
    current = copying(source, target, "orders")
    current.round()
    assert current.remaining == 0
    current.end()
    current.end()
    assert [group.name for group in source.groups("orders")] == ["default"]
    assert copy_all(source, target, "orders") == 0
