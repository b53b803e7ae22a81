"""No command and no route leaves a reference cycle: it would keep messages until the next collection of garbage.

A full collection is rare, because it stops the process. So what is in a cycle stays for minutes, and one receive of
1,000 messages may hold a megabyte.

Each command and route is repeated a hundred times here, and a thousand times by `make soak`.
"""

import gc
import re
from itertools import chain

import pytest

from tests.transcripts.garbage import collector_off, cycles
from tests.transcripts.script import Section, sections
from tests.transcripts.stage import Stage

SCRIPTS = ("resp.txt", "http.txt", "history.txt")
TIMES = 100
#: Cycles that are left on purpose: one of these parts, and why.
LASTING = {
    "Broker": "it ends with the process; a restart within one is for tests",
    "MonitorApp": "the same",
    "DashboardApp": "the same",
}


#: The command, with its subcommand, or the method and the beginning of the path.
_ACT = re.compile(r"(?:[a-z]+: )?(monitor )?(?:[a-z]+: )?([A-Z]+)(?= |$)(?: (/\w*|[A-Z]+\b))?")


class Collecting(Stage):
    """A stage that collects after each line."""

    def __init__(self, section: Section, *, protocol: int = 2) -> None:
        super().__init__(section, protocol=protocol)
        self.left: dict[str, list[str]] = {}

    def _play_line(self, line: str) -> None:
        super()._play_line(line)
        found = [cycle for cycle in cycles() if LASTING.keys().isdisjoint(cycle.split(", "))]
        if found:
            self.left[line] = found


@pytest.mark.parametrize(("script", "protocol"), [*((script, 2) for script in SCRIPTS), ("resp.txt", 3)])
def test_no_line_of_a_script_leaves_a_cycle(script, protocol):
    left = {}
    with collector_off():
        for section in sections(script):
            stage = Collecting(section, protocol=protocol)
            stage.play()
            if stage.left:
                left[section.title] = stage.left
            del stage
            gc.collect()
    assert left == {}


def _act(line: str) -> str:
    """Return the command or the route of a line, "" for one that no client says."""
    found = _ACT.match(line)
    return " ".join(filter(None, found.groups())) if found else ""


def test_no_command_and_no_route_leaves_a_cycle_when_it_is_repeated():
    check_repeated(TIMES)


def check_repeated(times: int) -> None:
    repeated: set[str] = set()

    class Repeating(Stage):
        """Repeats the first line of each command and route."""

        def __init__(self, section: Section) -> None:
            super().__init__(section)
            self.loop.max_turns *= times  # what is said while a command waits is carried out together

        def _play_line(self, line: str) -> None:
            super()._play_line(line)
            act = _act(line)
            if act and act not in repeated:
                repeated.add(act)
                cycles()
                for _ in range(times):
                    self.disconnect_all()  # otherwise a line that opens a request would wait with those before it
                    super()._play_line(line)
                assert cycles() == [], line

    with collector_off():
        for section in chain.from_iterable(map(sections, SCRIPTS)):
            Repeating(section).play()
            gc.collect()
    assert len(repeated) > 100
