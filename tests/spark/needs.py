"""Whether Spark can run here: the mark of all tests that take a session."""

import os

import pytest

from miniqueue.tools.spark_needs import missing

_MISSING = missing(os.environ)
#: Skips a test, and says what is missing.
needs_spark = pytest.mark.skipif(bool(_MISSING), reason="; ".join(_MISSING))
