"""The Spark session of a job of `miniqueue pipeline`, connected to the broker of its flags.

Spark is an extra, so modules that require it are imported only when a job runs.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from miniqueue.errors import ConfigError, MiniqueueError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER: Final = "local[2]"
#: The environment variable that is set if spark-submit has started Spark already.
_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"


@contextmanager
def interruptible_session(
    flags: Mapping[str, str],
    environ: Mapping[str, str],
    say: Callable[[str], None],
    *,
    runs_until_stopped: bool = False,
) -> Iterator["SparkSession"]:
    """Yield a session for a job; SIGINT and SIGTERM end the job in good order.

    Args:
      flags: flags of the job, by name.
      environ: environment variables.
      say: called with a line of progress: when Spark is started, and while the session waits for the broker.
      runs_until_stopped: whether the job waits for its broker and then runs until a signal ends it. A signal
        interrupts every other job: KeyboardInterrupt.

    Raises ConfigError, or ClientError if the broker does not answer.
    """
    from miniqueue.spark.jobs.stopping import Stopping  # noqa: PLC0415 - needs the extra
    from miniqueue.spark.source import check_broker, wait_for_broker  # noqa: PLC0415 - needs the extra

    with Stopping() as stopping:
        say("starting Spark")
        _start(flags, environ)
        stopping.listen()  # after Spark has set its own handler
        spark = _session(flags)
        try:
            if runs_until_stopped:
                wait_for_broker(spark, say, lambda: stopping.is_asked)
            else:
                check_broker(spark)
            stopping.attend(spark)
            if stopping.is_asked:
                raise KeyboardInterrupt
            yield spark
        except MiniqueueError as exc:
            if stopping.is_asked:
                raise KeyboardInterrupt from exc
            raise
        if stopping.is_asked and not runs_until_stopped:
            raise KeyboardInterrupt


def _start(flags: Mapping[str, str], environ: Mapping[str, str]) -> None:
    """Start Spark unless it is running."""
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415 - needs the extra

    conf = SparkConf().setAppName(f"miniqueue {flags['topic']}")
    if _SUBMITTED not in environ:
        conf.setMaster(flags.get("master", MASTER)).set("spark.ui.enabled", "false")
        conf.set("spark.ui.showConsoleProgress", "false")  # progress is reported in lines
    SparkContext.getOrCreate(conf)


def _session(flags: Mapping[str, str]) -> "SparkSession":
    from pyspark.logger import PySparkLogger  # noqa: PLC0415 - needs the extra
    from pyspark.sql import SparkSession  # noqa: PLC0415 - needs the extra

    from miniqueue.spark import register  # noqa: PLC0415 - needs the extra

    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")  # errors are reported in one line
    PySparkLogger.getLogger("DataFrameQueryContextLogger").setLevel("CRITICAL")  # it prints stacks, whatever the level
    for option, text in options(flags).items():
        spark.conf.set(f"spark.miniqueue.{option}", text)  # options of the builder are those of the process
    register(spark)
    return spark


def options(flags: Mapping[str, str]) -> dict[str, str]:
    """Return the options of the data source for these flags; raise ConfigError."""
    names = {"url": "url", "user": "user", "ca-file": "caFile"}
    texts = {option: flags[name] for name, option in names.items() if name in flags}
    if "secret-file" in flags:
        texts["secret"] = _secret(Path(flags["secret-file"]))
    return texts


def _secret(file: Path) -> str:
    try:
        return file.read_text().strip()
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError([f"flag -secret-file: {file} cannot be read: {exc}"]) from exc
