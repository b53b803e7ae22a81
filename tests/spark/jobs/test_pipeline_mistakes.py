"""`miniqueue pipeline` that is asked for what cannot be, or meets what is broken: a line or two, and no stack."""

import pytest

from miniqueue.spark.jobs.running import cause_of
from tests.spark.needs import JOBS

pytestmark = JOBS


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "no path after the flags"),
        (("/nowhere.csv",), "nowhere.csv"),
        (("/nowhere",), "unknown format"),
        (("-headers", "a", "x.csv"), "flag -headers"),
        (("-max-message-bytes", "ten", "x.csv"), "must be a whole number"),
        (("-max-message-bytes", "0", "x.csv"), "flag -max-message-bytes: invalid number: 0; must be at least 1"),
    ],
)
def test_mistakes_are_told_in_words(pipeline, words, said):
    code, _, err = pipeline("load", "t", *words)
    assert code == 78
    assert said in err


def test_a_broker_that_is_down_is_told_in_words_before_spark_does_anything(pipeline, tmp_path):
    (tmp_path / "in.csv").write_text("a\n1\n")
    for job in (["stats", "t"], ["load", "t", tmp_path / "in.csv"]):
        code, out, err = pipeline(*job, "-url", "redis://127.0.0.1:1")
        assert (code, out, "cannot connect to redis://127.0.0.1:1" in err) == (69, "", True)
        assert len(err) < 1000


def test_figures_do_not_replace_an_archive(pipeline, client, tmp_path):
    client.publish("spared", b"a")
    place = tmp_path / "archive"
    assert pipeline("archive", "spared", place)[0] == 0
    code, _, err = pipeline("stats", "spared", place)
    assert (code, "contains other Parquet than figures" in err) == (78, True)
    assert pipeline("replay", "spared again", place)[0] == 69  # no topic has that name
    assert pipeline("replay", "again.spared", place)[:2] == (0, "again.spared: 1 message published\n")
    for _ in range(2):
        assert pipeline("stats", "spared", tmp_path / "figures")[0] == 0


def test_an_archive_is_not_continued_with_another_checkpoint_which_would_lose_messages(pipeline, client, tmp_path):
    client.publish_many("first-there", [b"a", b"b"])
    client.publish("second-there", b"c")
    place, other = tmp_path / "archive", tmp_path / "other"
    assert pipeline("archive", "first-there", place)[0] == 0
    code, _, err = pipeline("archive", "second-there", "-checkpoint", other, place)
    assert (code, f"its files belong to another checkpoint than {other}" in err) == (78, True)
    code, out, _ = pipeline("archive", "second-there", "-checkpoint", other, tmp_path / "elsewhere")
    assert (code, out) == (0, "second-there: 1 message archived in 1 step\n")
    client.publish("second-there", b"d")
    assert pipeline("archive", "second-there", "-checkpoint", other, tmp_path / "elsewhere")[0] == 0


def test_what_is_no_archive_is_not_replayed_and_that_is_told_in_a_line(pipeline, spark, tmp_path):
    spark.range(3).write.parquet(str(tmp_path / "other"))
    code, _, err = pipeline("replay", "t", tmp_path / "other")
    assert (code, "not an archive; the column topic is missing" in err) == (78, True)
    code, _, err = pipeline("replay", "t", tmp_path / "nowhere")
    assert (code, "nowhere: the archive is empty or does not exist" in err) == (78, True)


def test_a_column_that_csv_has_twice_is_refused_and_not_lost(pipeline, tmp_path):
    (tmp_path / "in.csv").write_text("id,x,id\n1,2,3\n")
    code, _, err = pipeline("load", "twice", tmp_path / "in.csv")
    assert (code, "in.csv: the first line has the column 'id' twice" in err) == (78, True)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://localhost:1", "invalid broker URL: http://localhost:1"),
        ("redis://localhost:1?unknown=1", "invalid option of redis-py for redis://localhost:1: "),
        ("redis://localhost:1?socket_timeout=soon", "invalid option of redis-py for redis://localhost:1: "),
    ],
)
def test_an_address_that_is_none_is_a_wrong_flag(pipeline, tmp_path, url, said):
    (tmp_path / "in.csv").write_text("id\n1\n")
    code, _, err = pipeline("load", "t", "-run-id", "r", "-url", url, tmp_path / "in.csv")
    assert (code, said in err, err.count("\n")) == (78, True, 3)  # in front are the run id, and that Spark starts


def test_a_file_that_is_written_by_half_is_named(pipeline, spark, tmp_path):
    spark.range(0, 1000, 1, 1).write.parquet(str(tmp_path / "in.parquet"))
    [whole] = (tmp_path / "in.parquet").glob("part-*.parquet")
    half = tmp_path / "in.parquet" / "part-half.parquet"
    half.write_bytes(whole.read_bytes()[:-100])
    code, _, err = pipeline("load", "half", tmp_path / "in.parquet")
    assert (code, "part-half.parquet" in err) == (69, True)
    assert len(err) < 1000


def test_a_column_that_is_not_there_is_named(pipeline, tmp_path):
    (tmp_path / "in.csv").write_text("a,b\n1,2\n")
    code, _, err = pipeline("load", "t", "-key", "c", "-headers", "with blank=a", tmp_path / "in.csv")
    assert code == 78
    assert "there is no column c; there are a, b" in err
    assert "a header cannot have the name 'with blank'" in err


def test_the_cause_is_taken_from_what_spark_says():
    told = "Job aborted\nTraceback …\nminiqueue.spark.losses.NotWrittenError: row 7 of the task: TOOBIG\n\tat x"
    assert cause_of(told) == "NotWrittenError: row 7 of the task: TOOBIG"
    assert cause_of("one line\nmore") == "one line"
    assert cause_of("Encountered error while reading file file:///a/b.csv. SQLSTATE").startswith("file:///a/b.csv")
