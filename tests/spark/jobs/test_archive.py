"""`miniqueue pipeline archive` from run to run: with a group that comes and goes, and messages that are gone."""

import pytest

from miniqueue.spark.jobs import archive
from miniqueue.spark.jobs.running import WAITED_FOR, check_topics
from tests.spark.needs import JOBS

pytestmark = JOBS


def settle(client, topic: str) -> None:
    """Take all that there is, and wait until it is gone."""
    client.receive(topic, count=10_000, autoack=True)
    while any(one.earliest < one.end for one in client.partitions(topic)):
        pass


def test_an_archive_that_began_without_a_group_or_lost_it_has_one_where_it_was(pipeline, client, tmp_path):
    client.create_topic("joined", retention="forever")
    without_group = ("archive", "joined", tmp_path / "archive")
    with_group = (*without_group, "-group", "late")
    client.publish_many("joined", [b"a", b"b"])
    assert pipeline(*without_group)[0] == 0
    client.publish("joined", b"c")
    assert pipeline(*with_group)[:2] == (0, "joined: 1 message archived in 1 step\n")
    client.delete_group("joined", "late")
    client.publish_many("joined", [b"d", b"e"])
    assert pipeline(*with_group)[:2] == (0, "joined: 2 messages archived in 1 step\n")
    assert lag(client, "joined", "late") == 0


def lag(client, topic: str, group: str) -> int:
    """Return how many messages a group has to get."""
    [found] = [one for one in client.groups(topic) if one.name == group]
    return found.lag


def test_bug_a_group_was_a_step_behind_an_archive_that_had_ended(pipeline, spark, client, tmp_path):
    client.create_topic("stepped", retention="forever", partitions=2)
    client.publish_many("stepped", [str(number) for number in range(100)])
    job = archive.Archive("stepped", str(tmp_path / "archive"), group="arc", max_messages=30)
    assert archive.archive(spark, job, lambda _line: None).messages == 100
    assert lag(client, "stepped", "arc") == 0
    client.seek_group("stepped", "arc", "earliest")  # a run that was killed after its last step leaves it there
    assert pipeline("archive", "stepped", "-group", "arc", tmp_path / "archive")[1].endswith("in 0 steps\n")
    assert lag(client, "stepped", "arc") == 0


def test_what_is_archived_can_go_when_a_run_has_ended(pipeline, client, tmp_path):
    client.publish_many("can-go", [b"a", b"b"])
    assert pipeline("archive", "can-go", "-group", "arc", tmp_path / "archive")[0] == 0
    assert lag(client, "can-go", "arc") == 0
    settle(client, "can-go")
    client.publish("can-go", b"c")
    assert pipeline("archive", "can-go", "-group", "arc", tmp_path / "archive")[:2] == (
        0,
        "can-go: 1 message archived in 1 step\n",
    )


@pytest.mark.parametrize("job", ["archive", "stats"])
def test_bug_a_topic_with_a_slip_of_the_pen_was_an_empty_success(pipeline, client, tmp_path, job):
    client.publish("shipments", b"a")
    code, out, err = pipeline(job, "shipments,shipmetns", tmp_path / "out")
    assert (code, out, "there is no topic shipmetns on redis://" in err) == (78, "", True)
    assert "; did you mean shipments?\n" in err
    assert not (tmp_path / "out").exists()


def test_bug_an_archive_of_several_topics_could_not_go_on_without_one_that_was_deleted(pipeline, client, tmp_path):
    for topic in ("kept-on", "deleted"):
        client.create_topic(topic, retention="forever")
        client.publish(topic, b"a")
    words = ("archive", "kept-on,deleted", "-group", "arc", tmp_path / "archive")
    assert pipeline(*words)[0] == 0
    client.delete_topic("deleted")
    client.publish("kept-on", b"b")
    assert pipeline(*words)[0] == 78
    code, out, err = pipeline(*words[:-1], "-fail-on-data-loss", "false", words[-1])
    assert (code, out) == (0, "kept-on,deleted: 1 message archived in 1 step\n")
    assert "there is no topic deleted on" in err
    assert "; the others are archived" in err
    assert lag(client, "kept-on", "arc") == 0


def test_a_topic_that_is_not_there_yet_is_waited_for_by_a_job_that_runs_on(spark):
    said: list[str] = []
    check_topics(spark, ["zzz-to-come"], said.append, otherwise=WAITED_FOR)
    [line] = said
    assert (line[:32], line[-18:]) == ("there is no topic zzz-to-come on", "; it is waited for")


def test_what_is_settled_before_it_is_archived_breaks_off_or_is_counted(pipeline, client, tmp_path):
    job = ("archive", "settled", tmp_path / "archive")
    client.publish("settled", b"a")
    assert pipeline(*job)[0] == 0
    for payloads in ([b"b", b"c"], [b"d"]):
        client.publish_many("settled", payloads)
        settle(client, "settled")
    client.publish("settled", b"e")
    code, _, err = pipeline(*job)
    assert (code, "of settled, partition 0, from offset " in err) == (69, True)  # the task that was first reports it
    assert "(as a flag: -fail-on-data-loss false) continues without them" in err
    without = (*job, "-fail-on-data-loss", "false")
    assert pipeline(*without)[:2] == (1, "settled: 1 message archived in 1 step, 3 messages lost\n")
    assert pipeline(*job)[:2] == (0, "settled: 0 messages archived in 0 steps\n")
    client.publish("settled", b"f")
    settle(client, "settled")
    assert pipeline(*without)[:2] == (1, "settled: 0 messages archived in 1 step, 1 message lost\n")


def test_what_is_settled_while_an_archive_begins_is_counted(pipeline, client, tmp_path, monkeypatch):
    client.publish_many("hasty", [b"a", b"b"])
    begins = {"hasty": {"0": client.partitions("hasty")[0].earliest}}
    settle(client, "hasty")
    client.publish("hasty", b"c")
    monkeypatch.setattr(archive, "_earliest", lambda _spark, _topic: begins)
    code, out, _ = pipeline("archive", "hasty", "-fail-on-data-loss", "false", tmp_path / "archive")
    assert (code, out) == (1, "hasty: 1 message archived in 1 step, 2 messages lost\n")


def test_several_topics_are_archived_together_and_what_is_gone_of_each_is_counted(pipeline, spark, client, tmp_path):
    job = ("archive", "one-of-two, two-of-two", "-fail-on-data-loss", "false", tmp_path / "archive")
    for topic in ("one-of-two", "two-of-two"):
        client.publish_many(topic, [b"a", b"b"])
    assert pipeline(*job)[:2] == (0, "one-of-two, two-of-two: 4 messages archived in 1 step\n")
    archived = spark.read.parquet(str(tmp_path / "archive"))
    assert {(row.topic, row["count"]) for row in archived.groupBy("topic").count().collect()} == {
        ("one-of-two", 2),
        ("two-of-two", 2),
    }
    client.publish("two-of-two", b"c")
    settle(client, "two-of-two")
    assert pipeline(*job)[:2] == (1, "one-of-two, two-of-two: 0 messages archived in 1 step, 1 message lost\n")


def test_the_flag_is_told_with_which_an_archive_goes_on_after_its_topic_was_deleted(pipeline, client, tmp_path):
    job = ("archive", "begun-again", tmp_path / "archive")
    client.publish_many("begun-again", [b"a", b"b"])
    assert pipeline(*job)[0] == 0
    client.delete_topic("begun-again")
    client.publish("begun-again", b"c")
    code, _, err = pipeline(*job)
    assert (code, "(as a flag: -fail-on-data-loss false) reads from its beginning" in err) == (69, True)
    code, out, _ = pipeline(*job, "-fail-on-data-loss", "false")
    assert (code, out) == (0, "begun-again: 1 message archived in 1 step\n")


@pytest.mark.parametrize("text", ["no", ""])
def test_whether_to_fail_on_data_loss_is_true_or_false(pipeline, tmp_path, text):
    code, _, err = pipeline("archive", "t", f"-fail-on-data-loss={text}", tmp_path / "archive")
    assert (code, "flag -fail-on-data-loss: invalid value: " in err) == (78, True)
