"""The session of Spark that a job of `miniqueue pipeline` has, with the broker of its flags, until it is interrupted.

Spark is an extra. So what needs it is imported when a job is to run, and not before.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from miniqueue.errors import ConfigError, MiniqueueError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER: Final = "local[2]"
#: Is set where spark-submit has started Spark already.
_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"


@contextmanager
def interruptible_session(
    flags: Mapping[str, str],
    environ: Mapping[str, str],
    say: Callable[[str], None],
    *,
    runs_until_stopped: bool = False,
) -> Iterator["SparkSession"]:
    """Have a session for a job, which SIGINT and SIGTERM end in good order.

    Args:
      flags: of the job, by name.
      environ: the environment.
      say: is told that Spark is started, and that the broker is waited for.
      runs_until_stopped: whether a signal is how the job ends, once it has begun, and whether it waits for its broker
        before that. Others are interrupted by a signal: KeyboardInterrupt.

    Raises ConfigError, or ClientError when the broker does not answer.
    """
    from miniqueue.spark.jobs.stopping import Stopping  # noqa: PLC0415 - needs the extra
    from miniqueue.spark.source import check_broker, wait_for_broker  # noqa: PLC0415 - needs the extra

    with Stopping() as stopping:
        say("starting Spark")
        _start(flags, environ)
        stopping.listen()  # it has set a handler of its own
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
    """Start Spark, unless it runs already."""
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415 - needs the extra

    conf = SparkConf().setAppName(f"miniqueue {flags['topic']}")
    if _SUBMITTED not in environ:
        conf.setMaster(flags.get("master", MASTER)).set("spark.ui.enabled", "false")
        conf.set("spark.ui.showConsoleProgress", "false")  # progress is told in lines
    SparkContext.getOrCreate(conf)


def _session(flags: Mapping[str, str]) -> "SparkSession":
    from pyspark.logger import PySparkLogger  # noqa: PLC0415 - needs the extra
    from pyspark.sql import SparkSession  # noqa: PLC0415 - needs the extra

    from miniqueue.spark import register  # noqa: PLC0415 - needs the extra

    given = options(flags)
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")  # what goes wrong is told in one line
    PySparkLogger.getLogger("DataFrameQueryContextLogger").setLevel("CRITICAL")  # it prints stacks, whatever the level
    for option, text in given.items():
        spark.conf.set(f"spark.miniqueue.{option}", text)  # not with the builder: its words are those of a process
    register(spark)
    return spark


def options(flags: Mapping[str, str]) -> dict[str, str]:
    """Return the options of the data source that flags mean; raises ConfigError."""
    names = {"url": "url", "user": "user", "ca-file": "caFile"}
    found = {option: flags[name] for name, option in names.items() if name in flags}
    if "secret-file" in flags:
        found["secret"] = _secret(Path(flags["secret-file"]))
    return found


def _secret(file: Path) -> str:
    try:
        return file.read_text().strip()
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError([f"flag -secret-file: {file} cannot be read: {exc}"]) from exc
