"""`miniqueue pipeline stats` into a directory: what is there stays as it is."""

import pytest

from miniqueue.errors import ConfigError
from miniqueue.spark.jobs.stats import Stats, stats
from tests.spark.needs import IN_A_SESSION

pytestmark = IN_A_SESSION


def test_a_stream_of_figures_is_not_continued_with_another_checkpoint_which_would_count_twice(spark, client, tmp_path):
    client.publish("counted-once", "x")
    (tmp_path / "figures" / "step=3").mkdir(parents=True)
    job = Stats("counted-once", str(tmp_path / "figures"), every_seconds=1, checkpoint=str(tmp_path / "other"))
    with pytest.raises(ConfigError, match=f"its files are of another checkpoint than {job.checkpoint}"):
        stats(spark, job, pytest.fail, pytest.fail)
