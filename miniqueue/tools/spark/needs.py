"""The requirements of Spark on this machine: pyspark, and Java where Spark's launcher looks for it.

    JAVA_HOME is set ─▶ $JAVA_HOME/bin/java        else ─▶ java on the PATH

`python -m miniqueue.tools.spark.needs` reports what is missing and exits with 78; if nothing is missing, it prints
nothing and exits with 0. Sources: bin/spark-class and bin/load-spark-env.sh of Spark 4; its documentation names the
required version of Java.
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

#: The oldest Java that Spark 4 supports.
LEAST_JAVA: Final = 17
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
#: Maximum time for `java -version`; far longer than it takes on a busy machine.
_JAVA_SECONDS: Final = 60
_CONFIG_ERROR: Final = 78


def missing(environ: Mapping[str, str]) -> list[str]:
    """Return a text for each missing requirement, with the remedy."""
    return [*_missing_packages(), *_missing_java(environ)]


def _missing_packages() -> list[str]:
    names = [name for name in ("pyspark", "pyarrow", "pandas") if find_spec(name) is None]
    return [f"Spark is missing ({', '.join(names)}): pip install 'miniqueue[spark]'"] if names else []


def _missing_java(environ: Mapping[str, str]) -> list[str]:
    home = environ.get("JAVA_HOME", "")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java", path=environ.get("PATH"))
    if java is None:
        return [f"Java is missing: Spark requires it; install Java {LEAST_JAVA}, or set JAVA_HOME"]
    try:
        done = subprocess.run([java, "-version"], capture_output=True, timeout=_JAVA_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as exc:
        where = f"JAVA_HOME is {home}, but there " if home else ""
        return [f"{where}Java cannot be run: {exc}"]
    version = _VERSION.search(done.stderr.decode(errors="replace"))
    if version is None:
        return [f"{java} does not report its version; Spark requires Java {LEAST_JAVA} or newer"]
    if int(version[1]) < LEAST_JAVA:
        return [f"{java} is Java {version[1]}; Spark requires Java {LEAST_JAVA} or newer"]
    return []


def main() -> int:
    """Print what is missing; return the exit code."""
    problems = missing(os.environ)
    for problem in problems:
        print(problem, file=sys.stderr)
    return _CONFIG_ERROR if problems else 0


if __name__ == "__main__":
    sys.exit(main())
