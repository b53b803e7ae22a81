"""The steps of a Dockerfile, as far as they can be carried out without Docker."""

import json
import re
from pathlib import Path
from typing import NamedTuple


class Step(NamedTuple):
    """One instruction; `stage` counts the FROMs from 0."""

    stage: int
    word: str
    rest: str

    def json(self) -> list[str]:
        """Return the words of the JSON form, which some instructions end with."""
        words: list[str] = json.loads(self.rest[self.rest.index("[") :])
        return words


def read_steps(path: Path) -> list[Step]:
    """Return the instructions, comments left out and lines that go on joined."""
    lines = [line for line in path.read_text().splitlines() if not line.lstrip().startswith("#")]
    text = re.sub(r"\\\n\s*", "", "\n".join(lines))
    steps: list[Step] = []
    stage = -1
    for line in filter(str.strip, text.splitlines()):
        word, _, rest = line.partition(" ")
        stage += word == "FROM"
        steps.append(Step(stage, word, rest))
    return steps
