"""The part of the README about Spark is run, as the rest of it is."""

from contextlib import ExitStack

from tests.acceptance.documents.test_readme import Reader, Step, in_a_pipe, parts, paste_all
from tests.acceptance.tools import needs
from tests.spark.needs import IN_A_SESSION

pytestmark = [*IN_A_SESSION, needs("redis-cli", "make", "bash")]
RUN_SECONDS = 900


def test_a_reader_who_pastes_what_is_about_spark_sees_what_the_readme_shows(tmp_path):
    """Once, and not on a terminal too, as the rest: each command starts a JVM."""
    with ExitStack() as started:
        reader = Reader(tmp_path, started, in_a_pipe, RUN_SECONDS)
        reader.paste(Step("make run\n", None))
        paste_all(reader, parts()[1])
