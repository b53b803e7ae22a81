"""No command and no route leaves a reference cycle: it would keep messages until the next collection of garbage.

A full collection is rare, because it stops the process. So what is in a cycle stays for minutes, and one receive of
1,000 messages may hold a megabyte.
"""

import re

import pytest

from tests.transcripts.garbage import collector_off, cycles
from tests.transcripts.script import Section, sections
from tests.transcripts.stage import Stage

SCRIPTS = ("resp.txt", "http.txt", "history.txt")
TIMES = 1000
#: Cycles that are left on purpose: one of these parts, and why.
LASTING = {
    "Broker": "it ends with the process; a restart within one is for tests",
    "MonitorApp": "the same",
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
    for section in sections(script):
        with collector_off():
            stage = Collecting(section, protocol=protocol)
            stage.play()
        if stage.left:
            left[section.title] = stage.left
    assert left == {}


def _act(line: str) -> str:
    """Return the command or the route of a line, "" for one that no client says."""
    found = _ACT.match(line)
    return " ".join(filter(None, found.groups())) if found else ""


def test_no_command_and_no_route_leaves_a_cycle_when_it_is_repeated():
    repeated: set[str] = set()

    class Repeating(Stage):
        """Repeats the first line of each command and route."""

        def _play_line(self, line: str) -> None:
            super()._play_line(line)
            act = _act(line)
            if act and act not in repeated:
                repeated.add(act)
                cycles()
                for _ in range(TIMES):
                    super()._play_line(line)
                assert cycles() == [], line

    for script in SCRIPTS:
        for section in sections(script):
            with collector_off():
                Repeating(section).play()
    assert len(repeated) > 100
