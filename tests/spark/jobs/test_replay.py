"""`miniqueue pipeline replay` of a part of an archive: what the archive has, by time, and not what lies beside."""

import shutil

from tests.spark.needs import JOBS

pytestmark = JOBS


def test_a_day_of_an_archive_is_replayed_by_time_and_without_files_of_runs_that_were_killed(pipeline, client, tmp_path):
    client.publish_many("daily", [b"a", b"b"])
    assert pipeline("archive", "daily", tmp_path / "archive")[0] == 0
    [day] = (tmp_path / "archive").glob("date=*")
    for file in list(day.glob("part-*.parquet")):
        shutil.copy(file, file.with_name(f"part-killed-{file.name}"))
    since = ("-from", client.peek("daily", count=1)[0].published_at_ms)
    for days in (day, f"{tmp_path}/archive/date=20*", f"{tmp_path}/archive/date*"):
        assert pipeline("replay", "copy-of-day", days)[:2] == (0, "copy-of-day: 2 messages published\n")
    assert pipeline("replay", "copy-of-day", *since, day)[:2] == (0, "copy-of-day: 2 messages published\n")
    assert pipeline("replay", "copy-of-day", "-from", "2100-01-01", day)[:2] == (
        0,
        "copy-of-day: 0 messages published\n",
    )


def test_a_day_that_was_taken_out_of_its_archive_is_replayed_by_time(pipeline, client, tmp_path):
    client.publish("taken-out", b"a")
    assert pipeline("archive", "taken-out", tmp_path / "archive")[0] == 0
    [day] = (tmp_path / "archive").glob("date=*")
    day.rename(tmp_path / "day")
    since = ("-from", client.peek("taken-out", count=1)[0].published_at_ms)
    assert pipeline("replay", "put-back", *since, tmp_path / "day")[:2] == (0, "put-back: 1 message published\n")
