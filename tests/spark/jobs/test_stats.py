"""`miniqueue pipeline stats` into a directory: what is there stays, unless it is figures, which are replaced."""

import pytest

from miniqueue.errors import ConfigError
from miniqueue.spark.jobs.stats import Stats, stats
from tests.spark.needs import JOBS

pytestmark = JOBS

#: No compression of which there is code: a task that writes fails.
UNABLE_TO_WRITE = ("spark.sql.parquet.compression.codec", "brotli")


def published(spark, directory) -> list[int]:
    """Return how many messages each row has."""
    return [row.messages for row in spark.read.parquet(str(directory)).collect()]


def test_what_somebody_has_in_a_directory_below_figures_stays(pipeline, spark, client, tmp_path):
    client.create_topic("neighbour", retention="forever")
    spark.range(3).write.parquet(str(tmp_path / "mine"))
    (tmp_path / "_notes").write_text("kept")
    for count in (1, 2):
        client.publish("neighbour", "x")
        assert pipeline("stats", "neighbour", "-window", 86_400, tmp_path)[0] == 0
        assert published(spark, tmp_path) == [count]
    assert spark.read.parquet(str(tmp_path / "mine")).count() == 3
    names = sorted(path.name.partition("-")[0] for path in tmp_path.iterdir() if path.name[0] != ".")
    assert names == ["_SUCCESS", "_notes", "mine", "part"]


def test_figures_of_before_stay_until_the_new_are_written(pipeline, spark, client, tmp_path):
    client.publish("unwritten", "x")
    job = ("stats", "unwritten", "-window", 86_400, tmp_path)
    assert pipeline(*job)[0] == 0
    client.publish("unwritten", "y")
    spark.conf.set(*UNABLE_TO_WRITE)
    try:
        assert pipeline(*job)[0] == 69
    finally:
        spark.conf.unset(UNABLE_TO_WRITE[0])
    assert published(spark, tmp_path) == [1]
    assert pipeline(*job)[0] == 0
    assert published(spark, tmp_path) == [2]


def test_a_stream_of_figures_is_not_continued_with_another_checkpoint_which_would_count_twice(spark, client, tmp_path):
    client.publish("counted-once", "x")
    (tmp_path / "figures" / "step=3").mkdir(parents=True)
    job = Stats("counted-once", str(tmp_path / "figures"), every_seconds=1, checkpoint=str(tmp_path / "other"))
    with pytest.raises(ConfigError, match=f"its files belong to another checkpoint than {job.checkpoint}"):
        stats(spark, job, pytest.fail, pytest.fail)
