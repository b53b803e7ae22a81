"""`miniqueue pipeline` with a session of Spark and a real broker: files in, Parquet out, and back."""

import json
import os
import signal
import threading

import pytest

from miniqueue.spark.jobs.figures import Figures
from miniqueue.spark.jobs.stats import Stats, stats
from tests.spark.jobs.loaded import taken
from tests.spark.needs import JOBS

pytestmark = JOBS


def test_a_load_that_runs_again_with_the_same_id_adds_nothing(pipeline, client, tmp_path):
    (tmp_path / "in").mkdir()
    for number in range(3):
        lines = [json.dumps({"n": number * 10 + n, "deep": {"a": [1, None]}}) for n in range(10)]
        (tmp_path / "in" / f"{number}.jsonl").write_text("\n".join(lines))
    job = ("load", "again", "-format", "json", "-run-id", "same", tmp_path / "in")
    assert pipeline(*job)[:2] == (0, "again: 30 messages published\n")
    assert pipeline(*job)[0] == 0
    messages = [json.loads(message.payload) for message in taken(client, "again")]
    assert sorted(message["n"] for message in messages) == list(range(30))
    assert messages[0]["deep"] == {"a": [1, None]}


def test_rows_of_parquet_are_named_by_their_place_in_the_file(pipeline, spark, client, tmp_path):
    frame = spark.range(0, 10, 1, 1).selectExpr("id", "repeat('k', if(id = 7, 2000, 2)) AS `the key`")
    frame.write.parquet(str(tmp_path / "in.parquet"))
    code, _, err = pipeline("load", "parquet", "-key", "the key", "-run-id", "r", tmp_path / "in.parquet")
    assert code == 1
    assert ".parquet, row 8: the key is longer than 1024 bytes" in err
    assert len(taken(client, "parquet")) == 9


def test_a_file_that_is_damaged_is_named(pipeline, spark, tmp_path):
    spark.range(0, 1000, 1, 1).write.parquet(str(tmp_path / "in.parquet"))
    [file] = (tmp_path / "in.parquet").glob("part-*.parquet")
    content = bytearray(file.read_bytes())
    content[4:1000] = b"x" * 996
    file.write_bytes(content)
    for checksum in (tmp_path / "in.parquet").glob(".*.crc"):
        checksum.unlink()
    code, _, err = pipeline("load", "damaged", tmp_path / "in.parquet")
    assert code == 69
    assert file.name in err
    assert len(err) < 1000


def test_what_is_archived_by_day_is_replayed_by_time(pipeline, spark, client, tmp_path):
    archive = tmp_path / "archive"
    client.create_topic("kept", retention="forever")
    for number in range(20):
        client.publish("kept", f"m{number}", key="k", headers=[("n", str(number))])
    assert pipeline("archive", "kept", archive)[:2] == (0, "kept: 20 messages archived in 1 step\n")
    client.publish("kept", "late")
    assert pipeline("archive", "kept", archive)[:2] == (0, "kept: 1 message archived in 1 step\n")
    assert pipeline("archive", "kept", archive)[1] == "kept: 0 messages archived in 0 steps\n"
    assert [path.name[:7] for path in archive.glob("date=*")] == ["date=20"]
    archived = spark.read.parquet(str(archive))
    assert archived.count() == 21
    middle = archived.where("value = 'm10'").first().published_at
    since = client.peek("kept", count=1)[0].published_at_ms
    assert pipeline("replay", "copy", "-from", since, "-run-id", "r", archive)[:2] == (
        0,
        "copy: 21 messages published\n",
    )
    messages = taken(client, "copy")
    assert [message.payload for message in messages] == [b"m%d" % number for number in range(20)] + [b"late"]
    assert (messages[3].key, messages[3].headers) == (b"k", (("n", b"3"),))
    assert pipeline("replay", "none", "-from", "2100-01-01", archive)[:2] == (0, "none: 0 messages published\n")
    assert pipeline("replay", "none", "-until", middle.replace(year=2000).isoformat(), archive)[0] == 0


def test_what_happened_is_counted_by_windows_with_waits_and_reasons(pipeline, spark, client, tmp_path):
    client.create_topic("counted", retention="forever", trace=True)
    client.publish_many("counted", ["four", "four", "four", "four"])
    first, second, *_ = client.receive("counted", count=3)
    client.ack("counted", first)
    client.reject("counted", second, reason="näh")
    words = ("-window", 86_400, tmp_path / "stats")
    assert pipeline("stats", "counted", *words)[:2] == (0, f"counted: 2 rows in {tmp_path}/stats\n")
    dead, published = spark.read.parquet(str(tmp_path / "stats")).orderBy("event").collect()
    assert (published.topic, published.event, published.messages, published.bytes) == ("counted", "published", 4, 16)
    assert (published.reason, published.measured) == (None, 1)
    assert published.per_second == 4 / 86_400
    assert 0 <= published.p50_ms == published.p99_ms < 60_000
    assert (dead.topic, dead.event, dead.reason, dead.messages, dead.measured) == ("counted", "dead", "näh", 1, 1)
    code, out, _ = pipeline("stats", "counted", "-window", 86_400)
    assert code == 0
    assert "T00:00:00Z counted dead: näh: 1 message, 0.00/s, 4 bytes, p50 " in out
    client.create_topic("nothing-there")
    assert pipeline("stats", "nothing-there")[:2] == (0, "nothing-there: 0 rows\n")


def test_a_stream_of_figures_has_each_window_once_although_it_stops(spark, client, tmp_path):
    client.create_topic("windows", retention="forever")
    job = Stats("windows", str(tmp_path), window_seconds=1, every_seconds=0.1, late_seconds=0)

    def run_until(count: int) -> None:
        """Run until so many messages are in windows that are over."""
        found: list[Figures] = []

        def stop(row: Figures) -> None:
            found.append(row)
            if sum(one.messages for one in found) >= count:
                [query] = [one for one in spark.streams.active if one.name == "stats windows"]
                threading.Thread(target=query.stop).start()

        def publish_on() -> None:
            while not done.wait(0.3):
                client.publish("windows", "x")

        done = threading.Event()
        thread = threading.Thread(target=publish_on)
        thread.start()
        try:
            stats(spark, job, stop, lambda line: None)
        finally:
            done.set()
            thread.join()

    def written():
        files = [str(path) for path in tmp_path.glob("step=*/*.parquet")]
        return spark.read.parquet(*files).collect() if files else []

    run_until(2)
    while len(written()) < 2:  # a window may be shown, and not be written any more
        run_until(2)
    rows = written()
    starts = [row.window_start for row in rows]
    assert len(starts) == len(set(starts))
    ends_ms = max(row.window_end for row in rows).timestamp() * 1000
    messages = client.read("windows", "0", 0, count=1000).messages
    assert sum(row.messages for row in rows) == sum(one.published_at_ms < ends_ms for one in messages)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_archive_that_runs_on_ends_with_a_summary_when_it_is_told(pipeline, spark, client, tmp_path, number):
    topic = f"runs-on-{number.name}"
    client.publish(topic, b"a")
    before = signal.getsignal(number)

    def tell() -> None:
        while not list((tmp_path / "archive").glob("date=*/*.parquet")):
            if is_over.wait(0.05):
                return
        os.kill(os.getpid(), number)

    is_over = threading.Event()
    thread = threading.Thread(target=tell)
    thread.start()
    try:
        code, out, err = pipeline("archive", topic, "-every", 1, tmp_path / "archive")
    finally:
        is_over.set()
        thread.join()
    assert (code, "Traceback" in err) == (0, False)
    assert out.startswith(f"{topic}: ")
    assert "archived in" in out
    assert signal.getsignal(number) is before
    assert spark.streams.active == []
