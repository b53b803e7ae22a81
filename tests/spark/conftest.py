"""Sessions and brokers for the tests of the data source; without pyspark, or Java, there is nothing to test."""

import importlib.util

if importlib.util.find_spec("pyspark") is None:
    collect_ignore_glob = ["test_*.py"]
