"""The part of the README about Spark is run, as the rest of it is."""

from contextlib import ExitStack

from tests.acceptance.documents.test_readme import READERS, Reader, Step, parts, paste_all
from tests.acceptance.tools import needs
from tests.spark.needs import IN_A_SESSION

pytestmark = [*IN_A_SESSION, needs("redis-cli", "make", "bash")]
RUN_SECONDS = 240


@READERS
def test_a_reader_who_pastes_what_is_about_spark_sees_what_the_readme_shows(run_block, tmp_path):
    with ExitStack() as started:
        reader = Reader(tmp_path, started, run_block, RUN_SECONDS)
        reader.paste(Step("make run\n", None))
        paste_all(reader, parts()[1])
