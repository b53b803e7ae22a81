"""An example as a running program, whose output is read line by line."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from threading import Timer

from tests.acceptance.process import ROOT, python_path

EXAMPLES = ROOT / "examples"
RUN_SECONDS = 60
#: The environment of a program that fails at once if it relies on the default timeout of redis-py.
HASTY_REDIS_PY = os.environ | {"PYTHONPATH": python_path(Path(__file__).with_name("hasty_redis_py"))}
#: What a shell says of a program that was ended with ctrl-C.
INTERRUPTED = 130


class Example:
    """A running example."""

    def __init__(self, name: str, *options: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, EXAMPLES / name, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=HASTY_REDIS_PY,
        )
        self._limit = Timer(RUN_SECONDS, self.process.kill)  # so that no read waits forever
        self._limit.start()

    def wait_for(self, pattern: str, count: int = 1) -> list[str]:
        """Return the first `count` lines of output that match."""
        found: list[str] = []
        assert self.process.stdout is not None
        while len(found) < count:
            line = self.process.stdout.readline()
            assert line, f"ended, with {found}"
            if re.search(pattern, line):
                found.append(line.rstrip("\n"))
        return found

    def end(self, *, code: int) -> str:
        """Wait for its end and return the output that was not read yet."""
        output, errors = self.process.communicate()
        assert self.process.returncode == code, errors
        assert "Traceback" not in errors
        return output

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)
        self.end(code=INTERRUPTED)

    def stop(self) -> None:
        """Leave nothing running."""
        self._limit.cancel()
        self.process.kill()
        self.process.communicate()
