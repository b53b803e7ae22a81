"""`miniqueue pipeline` with a session of Spark and a real broker: files in, Parquet out, and back."""

import json
import os
import signal
import threading
from pathlib import Path

import pytest

from miniqueue.spark.jobs.stats import Figures, Stats, stats
from tests.spark.needs import IN_A_SESSION

pytestmark = IN_A_SESSION


def taken(client, topic: str) -> list:
    return client.receive(topic, count=10_000, autoack=True)


def quarantined(directory: Path) -> list[dict]:
    lines = [line for file in directory.rglob("part-*.json") for line in file.read_text().splitlines()]
    return sorted((json.loads(line) for line in lines), key=lambda row: row["row"])


def test_csv_is_loaded_and_bad_rows_are_counted_with_file_and_line(pipeline, client, tmp_path):
    file = tmp_path / "rides in town.csv"
    file.write_text('id,"land",note\n1,fr,"a, b"\n2,de,\n\n3\nx,nl,c\n4,it,' + "n" * 200 + "\n5,es,ü\n3\n")
    flags = ("-schema", "id int, land string, note string", "-key", "land", "-headers", "from=land")
    job = ("load", "csv", *flags, "-columns", "id,note", "-max-message-bytes", 100, "-run-id", "r1", file)
    code, out, err = pipeline(*job)
    assert (code, out) == (1, f"csv: 3 messages published, 4 bad rows in {tmp_path}/bad/r1\n")
    assert "row 5: it cannot be parsed" in err
    messages = {message.key: (json.loads(message.payload), message.headers) for message in taken(client, "csv")}
    assert messages == {
        b"fr": ({"id": 1, "note": "a, b"}, (("from", b"fr"),)),
        b"de": ({"id": 2, "note": None}, (("from", b"de"),)),
        b"es": ({"id": 5, "note": "ü"}, (("from", b"es"),)),
    }
    bad = quarantined(tmp_path / "bad" / "r1")
    assert [(row["row"], row["cause"]) for row in bad] == [
        (5, "it cannot be parsed"),
        (6, "it cannot be parsed"),
        (7, "the message is longer than 100 bytes"),
        (9, "it cannot be parsed"),
    ]
    assert bad[0]["record"] == "3"
    assert all(row["file"].endswith("rides%20in%20town.csv") for row in bad)


def test_quotes_in_csv_are_doubled_and_a_backslash_is_one(pipeline, client, tmp_path):
    (tmp_path / "in.csv").write_text('id,"a ""note"""\n1,"say ""hi"", now"\n2,"C:\\"\n3,"""q"""\n4,a\\b\n')
    assert pipeline("load", "quotes", tmp_path / "in.csv")[0] == 0
    notes = [json.loads(message.payload)['a "note"'] for message in taken(client, "quotes")]
    assert notes == ['say "hi", now', "C:\\", '"q"', "a\\b"]


@pytest.mark.parametrize("name", ["in.csv", "in.jsonl"])
def test_a_line_that_is_not_utf_8_is_set_aside_and_no_byte_is_replaced(pipeline, client, tmp_path, name):
    topic = f"latin-{name}"
    lines = [b'{"a":"caf\xe9"}', b'{"a":"ok","b":1}', b'{"a":"x","\xe9":1}']
    if name == "in.csv":
        lines = [b"a,b", b"caf\xe9,", b"ok,1", b"\xed\xa0\x80,"]
    (tmp_path / name).write_bytes(b"\n".join(lines))
    code, out, err = pipeline("load", topic, "-schema", "a string, b int", tmp_path / name)
    assert (code, out.partition(" in ")[0]) == (1, f"{topic}: 1 message published, 2 bad rows")
    assert "it is not UTF-8" in err
    assert pipeline("load", topic, tmp_path / name)[0] == 1
    with_schema, inferred = (json.loads(message.payload) for message in taken(client, topic))
    assert with_schema == {"a": "ok", "b": 1}
    assert inferred == {"a": "ok", "b": "1" if name == "in.csv" else 1}


def test_members_that_are_empty_objects_are_kept(pipeline, client, tmp_path):
    rows = [{"id": n, "meta": {}, "deep": {"x": {}, "y": 1}, "all": [{}], "{ }": 'a "{}', 'a"{}': 1} for n in range(2)]
    rows.append({**rows[0], "id": 2, "text": "{" + '\\"{}' * 100_000})
    (tmp_path / "in.jsonl").write_text("\n".join(json.dumps({"text": None, **row}) for row in rows))
    assert pipeline("load", "hollow", tmp_path / "in.jsonl")[0] == 0
    messages = [json.loads(message.payload) for message in taken(client, "hollow")]
    assert messages == [{"text": None, **row} for row in rows]


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


def test_a_file_without_rows_is_no_mistake(pipeline, tmp_path):
    (tmp_path / "empty.csv").write_text("a,b\n")
    assert pipeline("load", "empty", tmp_path / "empty.csv")[:2] == (0, "empty: 0 messages published\n")


def test_lines_that_are_no_json_are_set_aside(pipeline, client, tmp_path):
    file = tmp_path / "in.jsonl"
    file.write_text('{"a":1}\nnonsense\n{"a":2}\n{"a":\n')
    code, out, _ = pipeline("load", "json", "-run-id", "r", file)
    assert (code, out.partition(" in ")[0]) == (1, "json: 2 messages published, 2 bad rows")
    assert [(row["row"], row["record"]) for row in quarantined(tmp_path / "bad")] == [(2, "nonsense"), (4, '{"a":')]
    assert [message.payload for message in taken(client, "json")] == [b'{"a":1}', b'{"a":2}']


@pytest.mark.parametrize("schema", [(), ("-schema", "a struct<b:int>, c int")])
def test_a_line_of_which_spark_would_lose_a_part_is_set_aside_and_the_others_are_loaded(
    pipeline, client, tmp_path, schema
):
    topic = f"doubled-{len(schema)}"
    good = '{"a":{"b":1},"c":2}'
    bad = ['{"c":1,"c":2}', '{"a":{"b":1,"b":2}}', '{"c":1} {"c":2}', '{"c":1},{"c":2}', '{"c":1} and more']
    bad += ['{"c":1}] {"c":2}', '{"c":1}] and more']
    (tmp_path / "in.jsonl").write_text("\n".join([*bad, good]))
    code, _, err = pipeline("load", topic, *schema, "-run-id", "r", tmp_path / "in.jsonl")
    assert (code, "in.jsonl, row 1: it is not one JSON object, or has a member twice" in err) == (1, True)
    assert [(row["row"], row["record"]) for row in quarantined(tmp_path / "bad")] == [*enumerate(bad, 1)]
    assert [json.loads(message.payload) for message in taken(client, topic)] == [json.loads(good)]


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
    assert pipeline("stats", "not-there")[:2] == (0, "not-there: 0 rows\n")


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


def test_names_that_differ_in_case_are_different_names(pipeline, client, tmp_path):
    (tmp_path / "in.csv").write_text("id,ID\n1,2\n")
    assert pipeline("load", "cases", "-key", "ID", tmp_path / "in.csv")[0] == 0
    (tmp_path / "in.jsonl").write_text('{"id":1}\n{"ID":2}\n')
    assert pipeline("load", "cases", tmp_path / "in.jsonl")[0] == 0
    messages = [(message.key, json.loads(message.payload)) for message in taken(client, "cases")]
    assert messages == [(b"2", {"id": "1", "ID": "2"}), (b"", {"ID": None, "id": 1}), (b"", {"ID": 2, "id": None})]


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
