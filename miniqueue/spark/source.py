"""The data source `miniqueue` of Spark: its readers and writers, its registration, and checks of the broker.

register(spark)
spark.read.format("miniqueue").option("topic", "orders").load()
frame.write.format("miniqueue").option("topic", "orders").mode("append").save()
"""

import logging
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache

from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from miniqueue.errors import ClientError, ConfigError
from miniqueue.spark.dedup_check import DEFAULT_ATTEMPTS, attempts_of, warn_of_short_window
from miniqueue.spark.options import OPTIONS, Options, Use, instead_of, unknown_among
from miniqueue.spark.readers import BatchReader, StreamReader
from miniqueue.spark.rows import ORIGIN, SCHEMA, check_columns
from miniqueue.spark.writers import BatchWriter, StreamWriter
from miniqueue_client import Client
from miniqueue_client.address import Address
from miniqueue_client.calls.call import Call
from miniqueue_client.calls.errors import UntrustedError, is_passing

log = logging.getLogger("miniqueue.spark")

FORMAT = "miniqueue"
#: Prefix of options in Spark's configuration, where they keep addresses and secrets out of the jobs.
CONFIGURED = "spark.miniqueue."
#: Limits of a first connection: it fails after about 1 s if the port is closed, after 9 s if nothing replies.
_FIRST_RETRIES, _FIRST_TIMEOUT_SECONDS = 2, 3.0
#: Pause between attempts to reach a broker that is down.
_AGAIN_SECONDS = 1.0
_TIME_ZONE = "spark.sql.session.timeZone"
_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


class MiniqueueSource(DataSource):
    """Topics of a broker as a source and a sink of Spark.

    Attributes:
      defaults: options from Spark's configuration, for options that a job does not set.
      time_zone: the session's time zone, for times without one; "": the time zone of the machine.
      attempts: maximum number of attempts of a task, after which the job fails.
    """

    defaults: dict[str, str] = {}  # noqa: RUF012 - replaced as a whole, in a class of each session
    time_zone: str = ""
    attempts: int = DEFAULT_ATTEMPTS

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def schema(self) -> str:
        """Return the columns of a read."""
        return SCHEMA + (ORIGIN if self._texts().get("withorigin", "").lower() == "true" else "")

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader that reads topics once."""
        self._check_schema(schema)
        return BatchReader(self._parsed(Use.BATCH_READ))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return a reader that reads topics as a stream."""
        self._check_schema(schema)
        return StreamReader(self._parsed(Use.STREAM_READ))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return a writer of a frame."""
        self._check_write(schema, overwrite)
        options = self._parsed(Use.BATCH_WRITE)
        _check_start(options, self.attempts)
        return BatchWriter(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        """Return a writer of a stream."""
        self._check_write(schema, overwrite)
        options = self._parsed(Use.STREAM_WRITE)
        _check_stream(tuple(self._texts_for(Use.STREAM_WRITE).items()), self.attempts)
        return StreamWriter(options)

    def _parsed(self, use: Use) -> Options:
        return Options(self._texts_for(use), use, self.time_zone)

    def _texts_for(self, use: Use) -> dict[str, str]:
        """Return the options for a use: all that the job sets, and those of the configuration that have this use."""
        useful = {name.lower() for name, option in OPTIONS.items() if option.use & use}
        stated = {name.lower() for name in self.options}
        return {name: text for name, text in self._texts().items() if name in useful | stated}

    def _texts(self) -> dict[str, str]:
        """Return the options of the job, and of the configuration those that the job does not set; in lower case."""
        stated = {name.lower(): text for name, text in self.options.items()}
        defaults = {name: text for name, text in self.defaults.items() if instead_of(name) not in stated}
        return {**defaults, **stated}

    @staticmethod
    def _check_write(schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise ConfigError(["a topic cannot be overwritten; use the mode append"])
        check_columns({field.name: field.dataType.simpleString() for field in schema})

    def _check_schema(self, schema: StructType) -> None:
        if schema.simpleString() != f"struct<{self.schema().replace(', ', ',').replace(' ', ':')}>":
            raise ConfigError(
                [f"invalid schema; a topic has the columns {self.schema()}; omit the schema and use select"]
            )


def register(spark: SparkSession) -> None:
    """Add the format `miniqueue` to a session.

    Options in the session's configuration that begin with `spark.miniqueue.` are defaults for all jobs. Conditions are
    pushed down. Times without a time zone are in the session's present time zone. Unless PYSPARK_PYTHON is set, tasks
    run in this interpreter, which has miniqueue.
    """
    if "PYSPARK_PYTHON" not in os.environ:
        spark.sparkContext.pythonExec = sys.executable
    spark.conf.set(_PUSHDOWN, "true")
    known = {
        "defaults": configured(spark),
        "time_zone": spark.conf.get(_TIME_ZONE),
        "attempts": attempts_of(spark),
    }
    # Spark pickles a class defined here with its attributes; of an importable class it pickles only the name.
    spark.dataSource.register(type("ConfiguredSource", (MiniqueueSource,), known))


def configured(spark: SparkSession) -> dict[str, str]:
    """Return the options of a session's configuration, by names in lower case.

    Raises ConfigError for names that no option has: a misspelled option must not be ignored.
    """
    settings = {**dict(spark.sparkContext.getConf().getAll()), **spark.conf.getAll}
    texts = {name.removeprefix(CONFIGURED): text for name, text in settings.items() if name.startswith(CONFIGURED)}
    if problems := unknown_among(texts, CONFIGURED):
        raise ConfigError(problems)
    return {name.lower(): text for name, text in texts.items()}


def configured_client(spark: SparkSession) -> Client:
    """Return a client of the broker of a session's configuration."""
    common = {name.lower() for name, option in OPTIONS.items() if option.use is Use.ALL}
    texts = {name: text for name, text in configured(spark).items() if name in common}
    return Options({"topic": "any", **texts}, Use.BATCH_READ).client()


def check_broker(spark: SparkSession) -> None:
    """Check that the broker of a session's configuration replies; raises ClientError after a few attempts.

    A job that starts with a wrong address fails soon; a job in progress waits for a broker that restarts.
    """
    _ping(spark, _FIRST_RETRIES)


def wait_for_broker(spark: SparkSession, say: Callable[[str], None], is_given_up: Callable[[], bool]) -> None:
    """Wait until the broker replies, or until `is_given_up` returns true.

    Raises ClientError if waiting is useless: if the broker does not know the user, or its certificate is not trusted.

    Args:
      spark: the session, whose configuration names the broker.
      say: called with the reason for the wait, and again when it changes.
      is_given_up: called before each attempt.
    """
    reason = ""
    while not is_given_up():
        try:
            _ping(spark, retries=0)
        except ClientError as exc:
            if not is_passing(exc) or isinstance(exc, UntrustedError):
                raise
            if str(exc) != reason:
                reason = str(exc)
                say(f"{reason}; it is waited for")
            time.sleep(_AGAIN_SECONDS)
        else:
            return


def _check_start(options: Options, attempts: int) -> None:
    """Warn of problems of a write before it starts; raises RefusedError if the broker refuses its user.

    If the broker does not reply, the driver's log has a warning: tasks on a cluster log it too, but not on the driver.
    It is not an error, so that tasks can wait: while a broker restarts it may have no address, or one that only the
    executors know.
    """
    try:
        with Client.of(_hasty(options.client().address, retries=0)) as client:
            client.execute(Call(("PING",), str))
            warn_of_short_window(client, options, attempts)
    except ClientError as exc:
        if not is_passing(exc):
            raise
        log.warning("no broker for the driver; tasks that find none wait for %.0f s: %s", options["blockSeconds"], exc)


@cache
def _check_stream(texts: tuple[tuple[str, str], ...], attempts: int) -> None:
    """Check the start of a stream, once in each process: Spark plans the write again for each micro-batch.

    Args:
      texts: the options of the write, as names and values.
      attempts: maximum number of attempts of a task.
    """
    _check_start(Options(dict(texts), Use.STREAM_WRITE), attempts)


def _ping(spark: SparkSession, retries: int) -> None:
    with configured_client(spark) as client, Client.of(_hasty(client.address, retries)) as hasty:
        hasty.execute(Call(("PING",), str))


def _hasty(address: Address, retries: int) -> Address:
    """Return an address with fewer retries and a shorter timeout."""
    return replace(
        address,
        retries=min(address.retries, retries),
        timeout_seconds=min(address.timeout_seconds, _FIRST_TIMEOUT_SECONDS),
    )
