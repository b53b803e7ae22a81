"""What the clients say and understand, without a connection."""

import importlib
import pickle
import re
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from miniqueue.core.message.message import Counts
from miniqueue.errors import ConnectError, DisconnectedError, RequestError
from miniqueue.wire.resp_limits import MAX_WORDS_OF_MANY
from miniqueue_client import Message, Outgoing, RefusedError
from miniqueue_client.calls import chosen, groups, logs, messages, schedules, topics
from miniqueue_client.calls.call import may_follow, raise_what_passes, seconds_word
from miniqueue_client.calls.chosen import Selection
from miniqueue_client.calls.errors import refusal
from miniqueue_client.calls.values import Origin
from tests.meta.modules import ROOT

LOST_REPLY = DisconnectedError("the connection ended")
NO_CONNECTION = ConnectError("refused")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, ()),
        ({"key": "k"}, ("KEY", "k")),
        ({"delay_seconds": 0.00001}, ("DELAY", "0.00001")),
        ({"at": datetime(2026, 1, 1, tzinfo=UTC)}, ("AT", 1767225600000)),
        ({"ttl_seconds": 60, "priority": "high"}, ("PRIORITY", "high", "TTL", "60")),
        ({"delay_seconds": timedelta(days=2), "ttl_seconds": timedelta(hours=1)}, ("DELAY", "172800", "TTL", "3600")),
        ({"unique_key": b"u"}, ("UNIQUE", b"u")),
        ({"unique_key": b"u", "replace": True, "headers": {"a": "1"}}, ("UNIQUE", b"u", "REPLACE", "HEADER", "a", "1")),
        ({"headers": {"a": "1", "b": b"2"}}, ("HEADER", "a", "1", "HEADER", "b", b"2")),
        ({"headers": [("a", "1"), ("a", "2")]}, ("HEADER", "a", "1", "HEADER", "a", "2")),
    ],
)
def test_a_publish_says_the_options_that_it_has(options, words):
    assert messages.publish("t", b"x", **options).words == ("PUB", "t", b"x", *words)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (messages.publish_many("t", ["a", b"b"]), "MPUBLISH t a b"),
        (messages.publish_many("t", ["a", b"b"], dedup_id="1"), "PUBBATCH t 1 a b"),
        (
            messages.publish_many("t", ["a", b"b"], headers={"h": "v"}, dedup_id="1"),
            "PUBEACH t 1 a 3 HEADER h v b 3 HEADER h v",
        ),
        (
            messages.publish_each(
                "t", [Outgoing("a", key="k"), Outgoing(b"b"), Outgoing("c", {"h": "v"}, ttl_seconds=60)], dedup_id="1"
            ),
            "PUBEACH t 1 a 2 KEY k b 0 c 5 TTL 60 HEADER h v",
        ),
        (messages.cancel("t", "0-1700000060000-3"), "CANCEL t 0-1700000060000-3"),
        (messages.receive("t"), "RECEIVE t COUNT 1"),
        (
            messages.receive("t", group="g", count=9, wait_seconds=2.5, lease_seconds=60, autoack=True),
            "RECEIVE t GROUP g COUNT 9 WAIT 2.5 LEASE 60 AUTOACK",
        ),
        (messages.receive("t", group="g", member="m"), "RECEIVE t GROUP g MEMBER m COUNT 1"),
        (groups.members("t"), "GROUP MEMBERS t default"),
        (groups.holders("t", "g"), "GROUP HOLDERS t g"),
        (messages.ack("t", "r-1", Message("t", "0-1", b"", receipt="r-2")), "ACK t r-1 r-2"),
        (messages.ack("t", "r-1", "r-2", sync=True), "ACK t r-1 r-2 SYNC"),
        (messages.nack("t", "r-1", sync=True), "NACK t r-1 SYNC"),
        (messages.back("t", "r-1", sync=True), "BACK t r-1 SYNC"),
        (messages.dack("t", "r-1", seconds=0.5), "DACK t r-1 0.5"),
        (messages.dack("t", "r-1", seconds=0.5, sync=True), "DACK t r-1 SYNC 0.5"),
        (messages.reject("t", "r-1", reason="bad", sync=True), "REJECT t r-1 SYNC bad"),
        (messages.reject("t", "r-1", reason="bad"), "REJECT t r-1 bad"),
        (messages.extend("t", "r-1", seconds=60), "EXTEND t r-1 60"),
        (
            schedules.set_schedule("s", "t", "x", cron="0 9 * * *", zone="Europe/Berlin", missed="one"),
            "SCHEDULE SET s CRON 0 9 * * * TZ Europe/Berlin MISSED one t x",
        ),
        (messages.receive_any("a", "b"), "RECEIVEANY COUNT 1 TOPICS a b"),
        (
            messages.receive_any("a", patterns=["jobs.*", "b*"], group="g", count=5, wait_seconds=2, autoack=True),
            "RECEIVEANY GROUP g COUNT 5 WAIT 2 AUTOACK PATTERN jobs.* PATTERN b* TOPICS a",
        ),
        (messages.receive_any(patterns=["*"], lease_seconds=9), "RECEIVEANY COUNT 1 LEASE 9 PATTERN *"),
        (schedules.set_schedule("s", "t", "x", every_seconds=0.5), "SCHEDULE SET s EVERY 0.5 t x"),
        (
            schedules.set_schedule(
                "s",
                "t",
                "x",
                every_seconds=5,
                until=datetime(2030, 1, 1, tzinfo=UTC),
                headers={"a": "b"},
                key="k",
                ttl_seconds=9,
                priority="high",
            ),
            "SCHEDULE SET s EVERY 5 UNTIL 1893456000000 KEY k TTL 9 PRIORITY high HEADER a b t x",
        ),
        (schedules.schedules(after="s", count=5), "SCHEDULE LIST AFTER s COUNT 5"),
        (groups.create_group("t", "g"), "GROUP CREATE t g FROM earliest"),
        (
            groups.seek_group("t", "g", datetime(2026, 1, 1, tzinfo=UTC), dry_run=True),
            "GROUP SEEK t g 1767225600000 DRYRUN",
        ),
        (topics.stats(), "STATS"),
        (topics.stats("t"), "STATS t"),
        (topics.peek("t"), "PEEK t"),
        (topics.peek("t", state="delayed", count=5, after="0-7"), "PEEK t STATE delayed COUNT 5 AFTER 0-7"),
        (topics.find("t", "0-7"), "PEEK t ID 0-7"),
        (chosen.search("t", Selection()), "SEARCH t"),
        (chosen.search("t", Selection(older_than_seconds=timedelta(hours=1))), "SEARCH t OLDER 3600"),
        (
            chosen.search("t", Selection("ready", "k", ("h", "v"), "x", 1.5, "r", "g")),
            "SEARCH t STATE ready KEY k CONTAINS x OLDER 1.5 REASON r HEADER h v GROUP g",
        ),
        (
            chosen.search("t", Selection(key=""), count=5, scan=100, after="0-3-7"),
            "SEARCH t KEY  COUNT 5 SCAN 100 AFTER 0-3-7",
        ),
        (
            chosen.act_on("delete", "t", Selection(key="k"), limit=5, per_second=0.5, dry_run=True),
            "MESSAGES DELETE t KEY k LIMIT 5 RATE 0.5 DRYRUN",
        ),
        (chosen.act_on("due", "t", Selection(), delay_seconds=5), "MESSAGES DUE t DELAY 5"),
        (
            chosen.begin_task("redrive", "t.dlq", Selection(reason="r"), to="u"),
            "MESSAGES REDRIVE t.dlq REASON r TO u TASK",
        ),
        (chosen.tasks(), "TASK LIST"),
        (chosen.find_task("7"), "TASK GET 7"),
        (chosen.cancel_task("7"), "TASK CANCEL 7"),
        (chosen.delete_message("t", "0-7", group="g"), "MESSAGE DELETE t 0-7 GROUP g"),
        (chosen.move_to_front("t", "0-7"), "MESSAGE FRONT t 0-7"),
        (chosen.redrive_message("t.dlq", "0-7", to="u"), "MESSAGE REDRIVE t.dlq 0-7 TO u"),
        (chosen.reschedule("t", "0-7"), "MESSAGE DUE t 0-7"),
        (chosen.reschedule("t", "0-7", at=datetime(2026, 1, 1, tzinfo=UTC)), "MESSAGE DUE t 0-7 AT 1767225600000"),
        (chosen.reschedule("t", "0-7", delay_seconds=1.5), "MESSAGE DUE t 0-7 DELAY 1.5"),
        (schedules.fire_schedule("s"), "SCHEDULE FIRE s"),
        (topics.usage(), "USAGE"),
        (topics.leases("t"), "LEASES t GROUP default"),
        (
            topics.leases("t", group="g", member="m", count=5, after="5f0c-17"),
            "LEASES t GROUP g MEMBER m COUNT 5 AFTER 5f0c-17",
        ),
        (topics.trace("t", "0-7"), "TRACE t 0-7"),
        (topics.redrive("t", to="u", limit=5, per_second=10), "REDRIVE t TO u LIMIT 5 RATE 10"),
        (topics.redrive_report("t", limit=5), "REDRIVE t LIMIT 5 REPORT"),
        (topics.purge("t", state="ready", older_than_seconds=60), "PURGE t STATE ready OLDER 60"),
        (topics.pause("t"), "PAUSE t BOTH"),
        (topics.pause("t", "in", seconds=1), "PAUSE t IN 1"),
        (topics.pause("t", seconds=timedelta(minutes=5)), "PAUSE t BOTH 300"),
        (messages.receive("t", wait_seconds=timedelta(milliseconds=500)), "RECEIVE t COUNT 1 WAIT 0.5"),
        (messages.dack("t", "r-1", seconds=timedelta(days=1)), "DACK t r-1 86400"),
        (
            topics.set_topic("t", lease_seconds=timedelta(minutes=5), retry_delays=[1, timedelta(minutes=1)]),
            "TOPIC SET t lease_seconds 300 retry_delays 1,60",
        ),
        (topics.resume("t", "out"), "RESUME t OUT"),
        (topics.create_topic("t", schema={"type": "object"}), 'TOPIC CREATE t schema {"type": "object"}'),
        (
            topics.set_topic("t", max_deliveries=5, retry_delays=[1, 2.5], lease_seconds=None, ordered=True),
            "TOPIC SET t max_deliveries 5 retry_delays 1,2.5 lease_seconds default ordered true",
        ),
        (logs.read("t", 0, 17, count=5, max_bytes=9), "READ t 0 17 COUNT 5 BYTES 9"),
        (logs.read_from("t", datetime(2026, 1, 1, tzinfo=UTC)), "READ t 0 TIME 1767225600000"),
    ],
)
def test_calls_say_what_the_protocol_has(call, words):
    said = [word.decode() if isinstance(word, bytes) else str(word) for word in call.words]
    assert " ".join(said) == words


@pytest.mark.parametrize(
    ("seconds", "word"), [(1, "1"), (1.5, "1.5"), (1e-6, "0.000001"), (0, "0"), (1e20, "1" + "0" * 20)]
)
def test_seconds_are_decimal_and_never_have_an_exponent(seconds, word):
    assert seconds_word(seconds) == word


def test_a_nack_can_have_a_delay_and_a_reason():
    assert messages.nack("t", "r").words == ("NACK", "t", "r")
    words = ("NACK", "t", "r", "DELAY", "1.5", "REASON", "why")
    assert messages.nack("t", "r", seconds=1.5, reason="why").words == words


@pytest.mark.parametrize("make", [messages.ack, messages.nack, messages.back])
def test_a_settle_needs_a_receipt(make):
    with pytest.raises(RequestError):
        make("t")


def test_a_settle_has_no_more_words_than_a_broker_takes():
    most = partial(messages.dack, seconds=1)
    assert len(most("t", *["r"] * 9_999).words) == len(most("t", *["r"] * 9_998, sync=True).words) == MAX_WORDS_OF_MANY
    for make in (partial(most, "t", *["r"] * 10_000), partial(most, "t", *["r"] * 9_999, sync=True)):
        with pytest.raises(RequestError):
            make()


@pytest.mark.parametrize("count", [0, 10_000])
def test_a_request_publishes_no_more_than_a_broker_takes(count):
    with pytest.raises(RequestError):
        messages.publish_many("t", [b""] * count)


@pytest.mark.parametrize("rule", [{}, {"cron": "* * * * *", "every_seconds": 5}])
def test_a_schedule_has_one_rule(rule):
    with pytest.raises(RequestError):
        schedules.set_schedule("s", "t", "x", **rule)


def test_a_message_that_was_received_has_all_that_was_told():
    attributes = {
        b"id": b"0-4",
        b"published_at_ms": 1767225600000,
        b"deliveries": 4,
        b"nacks": 2,
        b"timeouts": 1,
        b"key": b"\xff",
        b"expires_at_ms": 1767225700000,
        b"headers": [[b"a", b"1"], [b"a", b"2"]],
        b"origin": {b"topic": b"o", b"id": b"0-1", b"died_at_ms": 5, b"reason": b"bad", b"nacks": 3},
        b"colour": b"red",
    }
    [message] = messages.receive("t").parse([[b"r-1", b"payload", attributes]])
    assert message == Message(
        "t",
        "0-4",
        b"payload",
        receipt="r-1",
        published_at_ms=1767225600000,
        deliveries=4,
        counts=Counts(nacks=2, timeouts=1),
        key=b"\xff",
        headers=(("a", b"1"), ("a", b"2")),
        expires_at_ms=1767225700000,
        origin=Origin("o", "0-1", 0, 5, "bad", Counts(nacks=3)),
        extra={"colour": "red"},
    )
    assert message.published_at == datetime(2026, 1, 1, tzinfo=UTC)
    assert (message.text, message.header("a"), message.header("b", "none")) == ("payload", "1", "none")


def test_each_receipt_has_its_result():
    call = messages.ack("t", "r-1", "r-2")
    assert call.parse([b"OK", b"NOLEASE the receipt belongs to no message"]) == [True, False]
    assert call.parse(b"OK") == [True]
    assert call.result_of(refusal("NOLEASE the receipt belongs to no message")) == [False]


def test_another_refusal_of_a_settle_is_an_error():
    with pytest.raises(RefusedError) as caught:
        messages.ack("t", "r-1").result_of(refusal("NOPERM no permissions"))
    assert caught.value.code == "NOPERM"


@pytest.mark.parametrize(
    ("line", "code"), [("NOTOPIC there is no such topic", "NOTOPIC"), ("unknown command 'X'", "ERR"), ("", "ERR")]
)
def test_a_refusal_has_the_word_of_the_broker(line, code):
    assert refusal(line).code == code


def test_a_refusal_can_be_carried_to_another_process():
    carried = pickle.loads(pickle.dumps(refusal("LIMIT full")))
    assert (carried.code, carried.text, str(carried)) == ("LIMIT", "full", "LIMIT full")


@pytest.mark.parametrize("error", [NO_CONNECTION, refusal("READONLY x"), refusal("DRAINING x")])
def test_what_was_not_done_is_tried_again(error):
    assert messages.publish("t", b"x").may_follow(error)


@pytest.mark.parametrize("error", [LOST_REPLY, refusal("UNKNOWN x")])
def test_what_may_have_been_done_is_tried_again_only_where_that_does_no_harm(error):
    assert not messages.publish("t", b"x").may_follow(error)
    assert not messages.publish_many("t", [b"x"]).may_follow(error)
    assert not messages.receive("t", autoack=True).may_follow(error)
    assert messages.publish("t", b"x", dedup_id="1").may_follow(error)
    assert messages.publish("t", b"x").kept_from_doubling(True).may_follow(error)
    assert messages.receive("t").may_follow(error)
    assert messages.ack("t", "r-1").may_follow(error)


@pytest.mark.parametrize("word", ["LIMIT", "FULL", "NOTOPIC", "NOPERM", "WRONGPASS", "PAUSED"])
def test_what_would_be_refused_again_is_not_tried_again(word):
    assert not messages.receive("t").may_follow(refusal(f"{word} x"))


def test_an_id_against_duplicates_is_added_once_and_is_new_each_time():
    call = messages.publish("t", b"x", key="k")
    assert call.kept_from_doubling(False) is call
    again = call.kept_from_doubling(True)
    assert again.words[:-1] == (*call.words, "DEDUP")
    assert again.words != call.kept_from_doubling(True).words
    assert again.kept_from_doubling(True) is again
    own = messages.publish("t", b"x", dedup_id="2")
    assert own.kept_from_doubling(True) is own
    many = messages.publish_many("t", ["a", "b"])
    assert many.kept_from_doubling(False) is many
    assert many.kept_from_doubling(True).words[0] == "PUBBATCH"
    assert many.kept_from_doubling(True).parse([[b"0-4", b"0-5"], 1]) == ["0-4", "0-5"]
    assert messages.receive("t").kept_from_doubling(True).words[0] == "RECEIVE"


PACKED = messages.Packed(b"\1\0\0\0", b"x", (b"\1\0\0\0", b"k"))


@pytest.mark.parametrize("dedup_id", ["1", None])
def test_who_has_packed_messages_is_told_no_ids(dedup_id):
    call = messages.publish_packed("t", PACKED, dedup_id=dedup_id).kept_from_doubling(is_wanted=True)
    assert call.words[3:] == (b"\1\0\0\0", b"x", b"\1\0\0\0", b"k")
    assert call.result_of([[b"0-0", 1], 0]) is None


MANY = {
    "packed": partial(messages.publish_packed, "t", PACKED),
    "each": partial(messages.publish_each, "t", [messages.Outgoing("x", key="k")]),
}


@pytest.mark.parametrize("make", MANY.values(), ids=MANY)
def test_messages_without_an_id_get_one_only_if_the_client_deduplicates(make):
    plain = make().kept_from_doubling(is_wanted=False)
    assert (plain.words[2], plain.is_repeatable) == ("", False)
    once = make().kept_from_doubling(is_wanted=True)
    assert once.words == make(dedup_id=once.words[2]).words
    assert (bool(once.words[2]), once.is_repeatable) == (True, True)


def test_packed_messages_without_an_id_of_their_own_are_repeated_where_the_client_deduplicates():
    call = messages.publish_packed("t", PACKED)
    assert not call.kept_from_doubling(is_wanted=False).is_repeatable
    assert call.kept_from_doubling(is_wanted=True).is_repeatable
    assert messages.publish_packed("t", PACKED, dedup_id="1").is_repeatable


def test_ids_are_words_that_say_whether_they_are_of_duplicates():
    ids = messages.publish("t", b"x").parse(b"0-4"), messages.publish("t", b"x").parse([b"0-4", 1])
    assert ids == ("0-4", "0-4")
    assert [message_id.is_duplicate for message_id in pickle.loads(pickle.dumps(ids))] == [False, True]
    several = messages.publish_many("t", [b"x"], dedup_id="1").parse([[b"0-4"], 1])
    assert (several, several.is_duplicate) == (["0-4"], True)
    assert not messages.publish_many("t", [b"x"]).parse([b"0-4"]).is_duplicate


PUBLISH, ACK = messages.publish("t", b"x"), messages.ack("t", "r-1")


@pytest.mark.parametrize(
    ("calls", "error", "is_repeated"),
    [
        ([PUBLISH, ACK], NO_CONNECTION, True),
        ([ACK, ACK], LOST_REPLY, True),
        ([ACK, ACK], refusal("READONLY x"), True),
        ([ACK, ACK], refusal("NOTOPIC x"), False),
        ([PUBLISH, ACK], LOST_REPLY, False),
        ([PUBLISH, ACK], refusal("READONLY x"), False),  # the publish may have been before that
        ([PUBLISH], refusal("READONLY x"), True),
    ],
)
def test_calls_in_one_go_are_tried_again_together_or_not_at_all(calls, error, is_repeated):
    assert may_follow(calls, error) == is_repeated


def test_a_refusal_that_passes_is_raised_only_when_all_may_be_tried_again():
    passing = refusal("READONLY x")
    with pytest.raises(RefusedError):
        raise_what_passes([ACK, ACK], [b"OK", passing])
    raise_what_passes([PUBLISH, ACK], [b"0-1", passing])
    raise_what_passes([ACK, ACK], [b"OK", refusal("NOPERM x")])


def test_what_the_page_on_the_client_imports_is_there():
    page = (ROOT / "docs" / "client.md").read_text()
    imported = re.findall(r"^from (miniqueue[\w.]*) import (.+)$", page, re.MULTILINE)
    assert ("miniqueue_client", "message_calls") in imported
    for module, names in imported:
        for name in names.split(", "):
            assert getattr(importlib.import_module(module), name), f"{module}.{name}"


@pytest.mark.parametrize("act", [chosen.act_on, chosen.begin_task])
def test_an_order_has_no_other_keywords(act):
    with pytest.raises(TypeError, match="unexpected keyword argument 'rate'"):
        act("delete", "t", Selection(), rate=5)
