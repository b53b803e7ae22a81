"""The data source `miniqueue` of Spark: what there is to read and to write, and how it is registered.

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

from miniqueue.client import Client
from miniqueue.client.address import Address
from miniqueue.client.call import Call
from miniqueue.client.refusals import UntrustedError, is_passing
from miniqueue.errors import ClientError, ConfigError
from miniqueue.spark.batch_reader import BatchReader
from miniqueue.spark.dedup_check import DEFAULT_ATTEMPTS, attempts_of, warn_of_short_window
from miniqueue.spark.options import OPTIONS, Options, Use, unknown_among
from miniqueue.spark.places import instead_of
from miniqueue.spark.rows import ORIGIN, SCHEMA, check_columns
from miniqueue.spark.stream_reader import StreamReader
from miniqueue.spark.writers import BatchWriter, StreamWriter

log = logging.getLogger("miniqueue.spark")

FORMAT = "miniqueue"
#: Options may stand in Spark's configuration, so that jobs need not have addresses and secrets in them.
CONFIGURED = "spark.miniqueue."
#: How patient a first connection is: about 1 s where nobody listens, 9 s where nothing comes back.
_FIRST_RETRIES, _FIRST_TIMEOUT_SECONDS = 2, 3.0
#: Who waits for a broker asks again so long after each failure.
_AGAIN_SECONDS = 1.0
_TIME_ZONE = "spark.sql.session.timeZone"
_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


class MiniqueueSource(DataSource):
    """Topics of a broker as a source and a sink of Spark.

    Attributes:
      defaults: options from Spark's configuration, for those that a job does not name.
      time_zone: of the session, for times without one; "" for that of the machine.
      attempts: how many times a task is run before it fails the job.
    """

    defaults: dict[str, str] = {}  # noqa: RUF012 - replaced as a whole, in a class of each session
    time_zone: str = ""
    attempts: int = DEFAULT_ATTEMPTS

    @classmethod
    def name(cls) -> str:
        """Return what jobs call it."""
        return FORMAT

    def schema(self) -> str:
        """Return the columns of what is read."""
        return SCHEMA + (ORIGIN if self._given().get("withorigin", "").lower() == "true" else "")

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads topics once."""
        self._check_schema(schema)
        return BatchReader(self._parsed(Use.BATCH_READ))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return what reads topics as a stream."""
        self._check_schema(schema)
        return StreamReader(self._parsed(Use.STREAM_READ))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return what writes a frame."""
        self._check_write(schema, overwrite)
        options = self._parsed(Use.BATCH_WRITE)
        _check_start(options, self.attempts)
        return BatchWriter(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        """Return what writes a stream."""
        self._check_write(schema, overwrite)
        options = self._parsed(Use.STREAM_WRITE)
        _check_stream(tuple(self._meant(Use.STREAM_WRITE).items()), self.attempts)
        return StreamWriter(options)

    def _parsed(self, use: Use) -> Options:
        return Options(self._meant(use), use, self.time_zone)

    def _meant(self, use: Use) -> dict[str, str]:
        """Return what is given for a use: all that the job says, and of the configuration what has that use."""
        useful = {name.lower() for name, option in OPTIONS.items() if option.use & use}
        stated = {name.lower() for name in self.options}
        return {name: text for name, text in self._given().items() if name in useful | stated}

    def _given(self) -> dict[str, str]:
        """Return what the job says, and the configuration where it says nothing, by names in lower case."""
        stated = {name.lower(): text for name, text in self.options.items()}
        unsaid = {name: text for name, text in self.defaults.items() if instead_of(name) not in stated}
        return {**unsaid, **stated}

    @staticmethod
    def _check_write(schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise ConfigError(["a topic cannot be overwritten; use the mode append"])
        check_columns({field.name: field.dataType.simpleString() for field in schema})

    def _check_schema(self, schema: StructType) -> None:
        if schema.simpleString() != f"struct<{self.schema().replace(', ', ',').replace(' ', ':')}>":
            raise ConfigError([f"a topic has the columns {self.schema()}; leave the schema out, and select"])


def register(spark: SparkSession) -> None:
    """Have a session know the format `miniqueue`.

    Options in the session's configuration that begin with `spark.miniqueue.` are defaults for all jobs. Conditions are
    pushed down. Times without a zone are in that of the session, as it is now. Where PYSPARK_PYTHON does not say
    otherwise, tasks run in this interpreter, which has miniqueue.
    """
    if "PYSPARK_PYTHON" not in os.environ:
        spark.sparkContext.pythonExec = sys.executable
    spark.conf.set(_PUSHDOWN, "true")
    known = {
        "defaults": configured(spark),
        "time_zone": spark.conf.get(_TIME_ZONE),
        "attempts": attempts_of(spark),
    }
    # A class made here is carried to the tasks with its attributes, one that can be imported is not.
    spark.dataSource.register(type("ConfiguredSource", (MiniqueueSource,), known))


def configured(spark: SparkSession) -> dict[str, str]:
    """Return the options that stand in a session's configuration, by names in lower case.

    Raises ConfigError for names that no option has: one that is misspelled would be one that is left out.
    """
    found = {**dict(spark.sparkContext.getConf().getAll()), **spark.conf.getAll}
    given = {name.removeprefix(CONFIGURED): text for name, text in found.items() if name.startswith(CONFIGURED)}
    if problems := unknown_among(given, CONFIGURED):
        raise ConfigError(problems)
    return {name.lower(): text for name, text in given.items()}


def configured_client(spark: SparkSession) -> Client:
    """Return a client of the broker that a session's configuration names."""
    of_all = {name.lower() for name, option in OPTIONS.items() if option.use is Use.ALL}
    given = {name: text for name, text in configured(spark).items() if name in of_all}
    return Options({"topic": "any", **given}, Use.BATCH_READ).client()


def check_broker(spark: SparkSession) -> None:
    """Ask the broker that a session's configuration names for a sign of life; raises ClientError after a few tries.

    Whoever begins is told soon of an address that is wrong; what is under way waits for a broker that restarts.
    """
    _ask(spark, _FIRST_RETRIES)


def wait_for_broker(spark: SparkSession, say: Callable[[str], None], is_given_up: Callable[[], bool]) -> None:
    """Return when the broker has given a sign of life, or nobody wants to wait for it any more.

    Raises ClientError where waiting does not help, as when it knows no such user or its certificate is not trusted.

    Args:
      spark: its configuration names the broker.
      say: is told why it is waited for, and again when that changes.
      is_given_up: asked before each try.
    """
    told = ""
    while not is_given_up():
        try:
            _ask(spark, retries=0)
        except ClientError as exc:
            if not is_passing(exc) or isinstance(exc, UntrustedError):
                raise
            if str(exc) != told:
                told = str(exc)
                say(f"{told}; it is waited for")
            time.sleep(_AGAIN_SECONDS)
        else:
            return


def _check_start(options: Options, attempts: int) -> None:
    """Warn of what may go wrong with a write; raises RefusedError if the broker refuses its user.

    A broker that does not answer is a warning in the driver's log. Tasks tell of it themselves, but where they run on a
    cluster not to whoever looks at the driver. Nor are they kept from waiting: a broker that restarts may have no
    address meanwhile, or one that only the executors know.
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
def _check_stream(given: tuple[tuple[str, str], ...], attempts: int) -> None:
    """Check the start of a stream, once in each process: Spark plans the write again for every micro-batch.

    Args:
      given: the options of the write, as names and values.
      attempts: how many times a task is run.
    """
    _check_start(Options(dict(given), Use.STREAM_WRITE), attempts)


def _ask(spark: SparkSession, retries: int) -> None:
    with configured_client(spark) as client, Client.of(_hasty(client.address, retries)) as hasty:
        hasty.execute(Call(("PING",), str))


def _hasty(address: Address, retries: int) -> Address:
    """Return an address that is asked with less patience."""
    return replace(
        address,
        retries=min(address.retries, retries),
        timeout_seconds=min(address.timeout_seconds, _FIRST_TIMEOUT_SECONDS),
    )
