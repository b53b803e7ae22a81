"""What a measurement has at hand: how much to do, where, and a note of the commands that it ran."""

import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

#: The figure that says how long a load must be.
RATE = "messages/s"
#: Nothing here is faster; a rate above it comes from a first load that was too short to be timed.
MAX_RATE = 4_000_000.0
#: Part of the time wanted that a load must take to count, once the server is warm.
ENOUGH = 0.6
#: Longer than any load takes on a slow machine.
LOAD_SECONDS = 600
#: Maximum length of a load's standard input in the report; of more of the same letter, the report has the number.
SHOWN_CHARACTERS = 20


class MeasurementError(Exception):
    """A figure cannot be measured here; the text says why. The run continues without it."""


@dataclass
class Bench:
    """How one contender of one scenario is measured.

    Attributes:
      folder: where stores are made.
      seconds: how long a rate is measured.
      scale: factor for the counts of the scenarios.
      commands: the latest command of each load program, for the report; ports and folders are left out.
      servers: the latest command of each server, also without ports and folders.
    """

    folder: Path
    seconds: float = 1.0
    scale: float = 1.0
    commands: dict[str, str] = field(default_factory=dict)
    servers: dict[str, str] = field(default_factory=dict)

    def count(self, full: int, least: int = 1000) -> int:
        """Return how many of something to do: `full` in a full run."""
        return max(least, int(full * self.scale))

    def note(self, command: Sequence[str], *private: str, stdin: str = "") -> None:
        """Remember the command of a load without what differs from run to run.

        Of each text in `private` that is what stands behind its last blank, `=` or `:`; so a count that happens to be
        the number of the port stays as it is, if the text is `--port=4711`.
        """
        program, text = _shown(command)
        self.commands[program] = _without((f"{_printing(stdin)} | " if stdin else "") + text, private)

    def note_server(self, command: Sequence[str], *private: str) -> None:
        """Remember the command of a server in the same way."""
        program, text = _shown(command)
        self.servers[program] = _without(text, private)

    def run(self, command: Sequence[str], *private: str, stdin: bytes | None = None) -> str:
        """Run a load to its end and return what it printed; raise MeasurementError when it failed."""
        self.note(command, *private, stdin=(stdin or b"").decode())
        try:
            done = subprocess.run(command, input=stdin, capture_output=True, timeout=LOAD_SECONDS, check=False)
        except subprocess.TimeoutExpired as exc:
            raise MeasurementError(f"{command[0]} took longer than {LOAD_SECONDS} s") from exc
        if done.returncode:
            raise MeasurementError(last_line(done.stderr) or last_line(done.stdout) or f"{command[0]} failed")
        return done.stdout.decode()

    def rate(self, load: Callable[[int], float], first: int) -> float:
        """Return the rate of a load that takes a count, as long as `seconds`; see `steady`."""
        return self.steady(lambda count: {RATE: load(count)}, first)[RATE]

    def steady(self, load: Callable[[int], Mapping[str, float]], first: int) -> Mapping[str, float]:
        """Return the figures, `RATE` among them, of a load that takes a count, as long as `seconds`.

        A load of `first` operations goes before: it warms up the server and tells how many will take that long. If it
        has already taken that long itself, it is the one that counts. What is warm is quicker: a load that was over too
        soon because of that is followed by a longer one.
        """
        count, figures, is_enough = first, load(first), 1.0
        while count < is_enough * (wanted := int(min(figures[RATE], MAX_RATE) * self.seconds)):
            count, is_enough = wanted, ENOUGH
            figures = load(count)
        return figures


def _shown(command: Sequence[str]) -> tuple[str, str]:
    """Return the program, or module, and the whole command as a shell takes it."""
    words = ["python" if word == sys.executable else word for word in command]
    return " ".join(words[:3]) if words[0] == "python" else words[0], shlex.join(words)


def _printing(text: str) -> str:
    """Return a command that prints a text, which may be a letter many times."""
    if len(text) > SHOWN_CHARACTERS and text == text[0] * len(text):
        return f"head -c {len(text)} /dev/zero | tr '\\0' {text[0]}"
    return f"printf %s {shlex.quote(text)}"


def _without(text: str, private: Sequence[str]) -> str:
    for fragment in private:
        start = 1 + max(fragment.rfind(mark) for mark in " =:")
        known, differing = re.escape(fragment[:start]), re.escape(fragment[start:])
        text = re.sub(rf"(?<!\d)({known}){differing}(?!\d)", r"\1…", text)
    return text


def last_line(output: bytes) -> str:
    """Return the last line that is not blank: in it, most programs say what was wrong."""
    lines = output.decode(errors="replace").strip().splitlines()
    return lines[-1].strip()[:200] if lines else ""
