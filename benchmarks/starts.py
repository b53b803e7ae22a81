"""How long commands take to start, and how much memory they use then: `python -m benchmarks.starts COMMAND…`.

The commands, with absolute paths, take turns, each in a directory of its own, in which it has started before. A start
lasts until the log line that says that all ports are open; CPU time and memory are measured right after it.
"""

import os
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROUNDS = 9
_PORTS = ("-port", "0", "-resp-port", "0", "-monitor-port", "0", "-ballast", "0")


class Start(NamedTuple):
    """One start."""

    seconds: float
    cpu_seconds: float
    resident_megabytes: float


def start(command: Sequence[str], directory: Path) -> Start:
    """Start the broker, measure it, and stop it."""
    begin = time.monotonic()
    with subprocess.Popen([*command, *_PORTS], cwd=directory, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if '"event":"ready"' in line:
                break
        seconds = time.monotonic() - begin
        measured = Start(seconds, _cpu_seconds(process.pid), _resident_megabytes(process.pid))
        process.terminate()
        process.stderr.read()
    return measured


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident_megabytes(pid: int) -> float:
    resident = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert resident is not None
    return int(resident[1]) * 1024 / 1e6


def main(commands: Sequence[str]) -> None:
    """Print one line for each command."""
    starts: dict[str, list[Start]] = {command: [] for command in commands}
    with tempfile.TemporaryDirectory() as directory:
        for number in range(ROUNDS + 1):  # the first one makes certificates and the store
            for place, command in enumerate(commands):
                (own := Path(directory, str(place))).mkdir(exist_ok=True)
                measured = start(shlex.split(command), own)
                if number > 0:
                    starts[command].append(measured)
    for command, all_measured in starts.items():
        medians = Start(*map(statistics.median, zip(*all_measured, strict=True)))
        print(
            f"{command}: ready after {medians.seconds:.2f} s, {medians.cpu_seconds:.2f} s of CPU time,"
            f" {medians.resident_megabytes:.0f} MB resident"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
