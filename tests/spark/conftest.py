"""Sessions and brokers for the tests of the data source; without pyspark, or Java, there is nothing to test.

A session takes ten seconds to start, so there is one for all, and one broker, in which each test has topics of its own.
"""

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from miniqueue.cli import main
from miniqueue_client import Client
from tests.client.broker import RespBroker
from tests.spark.needs import SHORT_LIVED_JAVA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

if importlib.util.find_spec("pyspark") is None:
    collect_ignore_glob = ["test_*.py", "*/test_*.py", "*/soak_*.py"]


@pytest.fixture(scope="session", autouse=True)
def short_lived_java() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_SUBMIT_OPTS", SHORT_LIVED_JAVA)  # drivers
        patch.setenv("SPARK_DAEMON_JAVA_OPTS", SHORT_LIVED_JAVA)  # the master and the workers of a cluster
        yield


@pytest.fixture(scope="session")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RespBroker]:
    broker = RespBroker(tmp_path_factory.mktemp("broker"))
    yield broker
    broker.end()


@pytest.fixture(scope="session")
def spark(shared_broker: RespBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    from pyspark.sql import SparkSession  # noqa: PLC0415 - need not be installed

    from miniqueue.spark import register  # noqa: PLC0415 - needs it

    directory = tmp_path_factory.mktemp("spark")
    spark = (
        SparkSession.builder.master("local[2,3]")  # a task that fails is run again, twice
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(directory))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.miniqueue.url", shared_broker.url)
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    register(spark)
    yield spark
    spark.stop()


@pytest.fixture
def client(shared_broker: RespBroker) -> Iterator[Client]:
    with Client(shared_broker.url) as client:
        yield client


@pytest.fixture
def pipeline(
    spark: "SparkSession", shared_broker: RespBroker, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Run a job; return its exit code and what it has printed on either output."""

    def run(job: str, topic: str, *words: object) -> tuple[int, str, str]:
        quarantine = ("-quarantine", tmp_path / "bad") if job == "load" else ()
        given = [job, "-topic", topic, "-url", shared_broker.url, *quarantine, *words]
        code = main(["pipeline", *map(str, given)], {})
        return (code, *capfd.readouterr())

    return run
