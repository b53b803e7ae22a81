"""Whether Spark can run here, the mark of all tests that take a session, and how Java is to run."""

import os

import pytest

from miniqueue.tools.spark.needs import missing

_MISSING = missing(os.environ)
#: Skips a test, and says what is missing.
needs_spark = pytest.mark.skipif(bool(_MISSING), reason="; ".join(_MISSING))
#: Of tests with a session in their own process.
IN_A_SESSION = [
    pytest.mark.acceptance,
    pytest.mark.slow,
    needs_spark,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # pyspark leaves sockets to the garbage collector
]
#: Of tests of jobs, which start processes; left out while nothing has changed that they are about, tests/proofs.py.
JOBS = [*IN_A_SESSION, pytest.mark.spark_jobs]
#: A JVM that lives for seconds takes most of them to compile what it does, and to do so well does not pay.
SHORT_LIVED_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
