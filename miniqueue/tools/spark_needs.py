"""What Spark needs on this machine: pyspark and Java, found as Spark's launcher finds it.

    JAVA_HOME is set ─▶ $JAVA_HOME/bin/java        else ─▶ java on the PATH

`python -m miniqueue.tools.spark_needs` says what is missing and ends with 78; nothing is said where nothing is.
Sources: bin/spark-class and bin/load-spark-env.sh of Spark 4; the Java that it takes stands in its documentation.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

LEAST_JAVA: Final = 17
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_JAVA_SECONDS: Final = 60
_CONFIG_ERROR: Final = 78


def missing(environ: Mapping[str, str]) -> list[str]:
    """Return in words what is missing, and what to do; nothing when all is there."""
    return [*_missing_packages(), *_missing_java(environ)]


def _missing_packages() -> list[str]:
    names = [name for name in ("pyspark", "pyarrow", "pandas") if find_spec(name) is None]
    return [f"Spark is missing ({', '.join(names)}): pip install 'miniqueue[spark]'"] if names else []


def _missing_java(environ: Mapping[str, str]) -> list[str]:
    home = environ.get("JAVA_HOME", "")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java", path=environ.get("PATH"))
    if java is None:
        return [f"Java is missing, which Spark takes: install Java {LEAST_JAVA}, or set JAVA_HOME"]
    try:
        told = subprocess.run([java, "-version"], capture_output=True, timeout=_JAVA_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as exc:
        where = f"JAVA_HOME is {home}, but there " if home else ""
        return [f"{where}Java cannot be run: {exc}"]
    found = _VERSION.search(told.stderr.decode(errors="replace"))
    if found is None:
        return [f"{java} does not tell its version; Spark takes Java {LEAST_JAVA} or newer"]
    if int(found[1]) < LEAST_JAVA:
        return [f"{java} is Java {found[1]}, and Spark takes Java {LEAST_JAVA} or newer"]
    return []


def main() -> int:
    """Say what is missing; return the exit code."""
    problems = missing(os.environ)
    for problem in problems:
        print(problem, file=sys.stderr)
    return _CONFIG_ERROR if problems else 0


if __name__ == "__main__":
    sys.exit(main())
