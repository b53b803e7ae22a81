"""What the figures were measured on: the machine, and the versions of all programs."""

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PROGRAMS = {
    "redis-server": ("redis-server", "--version"),
    "redis-benchmark": ("redis-benchmark", "--version"),
    "nats-server": ("nats-server", "--version"),
    "beanstalkd": ("beanstalkd", "-v"),
    "h2load": ("h2load", "--version"),
    "curl": ("curl", "--version"),
}
PACKAGES = ("miniqueue", "hypercorn", "granian", "hiredis", "plyvel", "uvloop", "redis", "pyspark", "pyarrow")


def described(folder: Path) -> dict[str, str]:
    """Return what is known, by name; `folder` is where the stores are."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 1e9:.0f} GB",
        "stores on": _file_system(folder),
        "scheduling": _scheduling(),
        "system": f"{_distribution()}, Linux {platform.release()}",
        "Python": platform.python_version(),
        "packages": ", ".join(f"{name} {_package(name)}" for name in PACKAGES),
        "programs": ", ".join(f"{name} {_program(words)}" for name, words in [*PROGRAMS.items(), _java()]),
    }


def _processor() -> str:
    match = re.search(r"model name\s*: (.+)", _read("/proc/cpuinfo"))
    return match[1] if match else platform.machine()


def _scheduling() -> str:
    """Return the scheduling policy of this process, which the contenders inherit."""
    names = {os.SCHED_OTHER: "as usual", os.SCHED_FIFO: "real time, first in first out", os.SCHED_RR: "real time"}
    return names.get(os.sched_getscheduler(0), "unusual")


def _distribution() -> str:
    match = re.search(r'PRETTY_NAME="?([^"\n]+)', _read("/etc/os-release"))
    return match[1] if match else "Linux"


def _file_system(folder: Path) -> str:
    output = _output(("df", "--output=fstype", str(folder))).split()
    return output[-1] if output else "unknown"


def _package(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _java() -> tuple[str, Sequence[str]]:
    """Return the Java that Spark uses."""
    home = os.environ.get("JAVA_HOME", "")
    return "Java", (str(Path(home, "bin", "java")) if home else "java", "-version")


def _program(command: Sequence[str]) -> str:
    if shutil.which(command[0]) is None:
        return "not installed"
    match = re.search(r"\d+(\.\d+)+", _output(command))
    return match[0] if match else "?"


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def _output(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    return done.stdout + done.stderr
