"""The data source in a session of Spark with a real broker: what is written is read, once, whatever runs again."""

import threading
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from miniqueue.errors import ConfigError
from miniqueue.spark import register
from miniqueue_client import Client
from tests.spark.needs import IN_A_SESSION

pytestmark = IN_A_SESSION


def rows(spark: SparkSession, count: int, partitions: int = 2) -> DataFrame:
    """Return a frame of `count` messages, of which each has its number as its text and a key."""
    numbers = spark.range(0, count, 1, partitions)
    return numbers.select(F.col("id").cast("string").alias("value"), (F.col("id") % 3).cast("string").alias("key"))


def write(frame: DataFrame, topic: str, **options: object) -> None:
    frame.write.format("miniqueue").mode("append").options(topic=topic, **options).save()


def texts(client: Client, topic: str) -> list[str]:
    return [message.text for message in client.receive(topic, count=10_000, autoack=True)]


def test_a_frame_is_written_once_with_its_columns_and_read_back(spark, client):
    client.create_topic("frame", retention="forever")
    frame = rows(spark, 100).withColumn(
        "headers", F.array(F.struct(F.lit("a").alias("name"), F.lit("1").cast("binary").alias("value")))
    )
    write(frame, "frame", runId="one", batchMessages=7)
    write(frame, "frame", runId="one", batchMessages=7)  # the job runs again
    messages = client.receive("frame", count=10_000, autoack=True)
    assert sorted(int(message.text) for message in messages) == list(range(100))
    assert {(message.key, message.headers) for message in messages} == {(b"%d" % n, (("a", b"1"),)) for n in range(3)}

    read = spark.read.format("miniqueue").load("frame")
    assert sorted(int(row.value) for row in read.collect()) == list(range(100))
    first = read.where("offset = 0").first()
    assert (first.topic, first.partition, first.id, first.priority) == ("frame", 0, "0-0", "normal")
    assert (first.key, first.headers[0].name, first.headers[0].value) == (messages[0].key, "a", b"1")
    assert abs(first.published_at.timestamp() - messages[0].published_at_ms / 1000) < 0.001
    assert read.where("offset >= 10 and offset < 20").count() == 10
    assert read.where(F.col("published_at") > F.lit("2100-01-01").cast("timestamp")).count() == 0
    divided = spark.read.format("miniqueue").option("minPartitions", 5).load("frame")
    assert (divided.rdd.getNumPartitions(), divided.count()) == (5, 100)


@pytest.mark.parametrize("has_keys", [True, False])
def test_a_task_that_fails_and_runs_again_adds_nothing(spark, client, tmp_path, has_keys):
    topic = f"again-{has_keys}"
    failed = tmp_path / "failed"

    def fail_once(batches):
        for index, batch in enumerate(batches):
            yield batch
            if index == 1 and not failed.exists():
                failed.touch()
                raise ValueError("the first attempt fails behind rows that were written")

    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "20")
    try:
        frame = rows(spark, 100, 1) if has_keys else rows(spark, 100, 1).select("value")
        write(frame.mapInPandas(fail_once, frame.schema), topic, batchMessages=5)
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert failed.exists()
    assert sorted(map(int, texts(client, topic))) == list(range(100))


def test_a_job_that_runs_again_with_its_rows_in_another_order_fails_and_drops_none(spark, client):
    """Rows with the same payload were taken for each other: 40 of 100 keys were lost without an error."""
    frame = spark.range(0, 100, 1, 1).select(
        F.lit("same").alias("value"), F.col("id").cast("string").alias("key"), F.lit("high").alias("priority")
    )
    write(frame.limit(40), "reversed", runId="one")
    write(frame.limit(60).coalesce(1), "reversed", runId="one")  # the same rows, and more
    with pytest.raises(Exception, match="row 0 of the task: an earlier attempt has published other rows there"):
        write(frame.sortWithinPartitions(F.desc("key")), "reversed", runId="one")
    keys = {message.key for message in client.receive("reversed", count=10_000, autoack=True)}
    assert keys >= {b"%d" % number for number in range(60)}


@pytest.mark.parametrize("priority", ["normal", "high"])
def test_a_write_without_deduplication_leaves_no_ids(spark, client, priority):
    """Each request, or row, had an id of its own, which the broker had to remember."""
    topic = f"without-ids-{priority}"
    client.create_topic(topic, dedup_window_seconds=0)  # refuses ids
    write(rows(spark, 20).withColumn("priority", F.lit(priority)), topic, deduplicate="false")
    assert sorted(map(int, texts(client, topic))) == list(range(20))


def test_a_stream_is_copied_once_although_it_stops_and_starts(spark, client, tmp_path):
    client.publish_many("from", [str(number) for number in range(100)])
    checkpoint = tmp_path / "checkpoint"

    def run() -> list[int]:
        """Run until there is nothing more; return how many rows each micro-batch had."""
        source = spark.readStream.format("miniqueue").options(startingOffsets="earliest", maxMessagesPerTrigger=30)
        source = source.option("group", "spark")
        copied = source.load("from").select("value", "key", "headers")
        sink = copied.writeStream.format("miniqueue").options(topic="to", checkpointLocation=str(checkpoint))
        query = sink.trigger(availableNow=True).start()
        assert query.awaitTermination(120)
        return [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]

    assert run() == [30, 30, 30, 10]
    (checkpoint / "commits" / "3").unlink()  # the driver may have died after the last write
    (checkpoint / "commits" / ".3.crc").unlink(missing_ok=True)
    client.publish_many("from", ["100"])
    run()
    assert sorted(map(int, texts(client, "to"))) == list(range(101))
    [group] = [one for one in client.groups("from") if one.name == "spark"]
    assert group.lag <= 101 - 90  # Spark tells of a micro-batch that is done when it plans the next one


def test_a_group_is_behind_by_the_last_micro_batch_until_a_run_has_another_one(spark, client, tmp_path):
    """Spark tells that a micro-batch is done when it begins the next one, and never of the last one of a run."""
    client.publish_many("lagging", [b"x"] * 10)

    def lag_after_a_run() -> int:
        source = spark.readStream.format("miniqueue").options(startingOffsets="earliest", maxMessagesPerTrigger=4)
        stream = source.option("group", "along").load("lagging").writeStream.format("noop")
        query = stream.option("checkpointLocation", str(tmp_path / "place")).trigger(availableNow=True).start()
        assert query.awaitTermination(120)
        [group] = [one for one in client.groups("lagging") if one.name == "along"]
        return int(group.lag)

    assert [lag_after_a_run(), lag_after_a_run()] == [2, 2]
    client.publish("lagging", b"x")
    assert lag_after_a_run() == 1


def test_messages_that_are_gone_are_an_error_or_left_out(spark, client):
    client.publish_many("gone", ["a", "b"])
    client.receive("gone", count=2, autoack=True)
    client.publish_many("gone", ["c"])
    asked = spark.read.format("miniqueue").option("startingOffsets", '{"gone":{"0":0}}')
    with pytest.raises(Exception, match="2 messages of gone, partition 0, from offset 0 on no longer exist"):
        asked.load("gone").collect()
    assert [bytes(row.value) for row in asked.option("failOnDataLoss", "false").load("gone").collect()] == [b"c"]


def test_a_batch_of_a_topic_that_is_not_there_is_a_mistake(spark):
    asked = spark.read.format("miniqueue").option("topic", "ordres")
    with pytest.raises(Exception, match="ConfigError: there is no topic ordres on redis://"):
        asked.load().count()
    assert asked.option("failOnDataLoss", "false").load().count() == 0


def test_a_time_without_a_zone_is_in_that_of_the_session(spark, client):
    client.create_topic("zoned", retention="forever")
    client.publish("zoned", b"a")
    there = datetime.now(timezone(timedelta(hours=5))).replace(tzinfo=None) - timedelta(minutes=10)

    def count(zone: str) -> int:
        spark.conf.set("spark.sql.session.timeZone", zone)
        register(spark)
        return spark.read.format("miniqueue").options(topic="zoned", startingTime=there.isoformat()).load().count()

    assert [count("+05:00"), count("UTC")] == [1, 0]


def test_a_full_topic_gives_back_pressure(spark, client):
    client.create_topic("narrow", max_messages=10)
    received: list[str] = []

    def drain() -> None:
        with Client(client.address.url) as own:
            for message in own.consume("narrow", autoack=True, idle_seconds=20):
                received.append(message.text)
                if len(received) == 40:
                    return

    thread = threading.Thread(target=drain)
    thread.start()
    write(rows(spark, 40), "narrow", batchMessages=5)
    thread.join(60)
    assert sorted(map(int, received)) == list(range(40))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"topics": "t"}, "did you mean topic"),
        ({}, "the option topic is missing"),
        ({"topic": "two words"}, "BADTOPIC"),
    ],
)
def test_mistakes_are_told_in_words(spark, options, said):
    with pytest.raises(Exception, match=said):
        spark.read.format("miniqueue").options(**options).load().collect()
    with pytest.raises(Exception, match=said):
        rows(spark, 1, 1).write.format("miniqueue").mode("append").options(**options).save()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "spark.miniqueue.tpoic",
            r"there is no option spark\.miniqueue\.tpoic; did you mean spark\.miniqueue\.topic\?",
        ),
        ("spark.miniqueue.blockSecond", r"did you mean spark\.miniqueue\.blockSeconds\?"),
        ("spark.miniqueue.colour", "there is no option spark.miniqueue.colour; there are url, user"),
    ],
)
def test_a_misspelled_option_in_the_configuration_is_refused(spark, name, said):
    """It was passed over, and the default held."""
    spark.conf.set(name, "x")
    try:
        with pytest.raises(ConfigError, match=said):
            register(spark)
    finally:
        spark.conf.unset(name)


def test_a_topic_beside_the_path_is_refused_and_one_in_the_configuration_gives_way(spark, client):
    client.publish("by-path", b"a")
    with pytest.raises(Exception, match="the topic is set twice"):
        spark.read.format("miniqueue").option("topic", "other").load("by-path").collect()
    with pytest.raises(Exception, match="the topic is set twice"):
        rows(spark, 1, 1).write.format("miniqueue").mode("append").option("topic", "other").save("by-path")
    spark.conf.set("spark.miniqueue.topic", "other")
    try:
        register(spark)
        assert spark.read.format("miniqueue").load("by-path").count() == 1
    finally:
        spark.conf.unset("spark.miniqueue.topic")
        register(spark)


def test_a_topic_is_not_overwritten_and_columns_without_use_are_refused(spark, tmp_path: Path):
    with pytest.raises(Exception, match="unknown columns: colour"):
        write(rows(spark, 1, 1).withColumn("colour", F.lit("red")), "t")
    with pytest.raises(Exception, match=r"cannot be overwritten|append"):
        rows(spark, 1, 1).write.format("miniqueue").mode("overwrite").option("topic", "t").save()
