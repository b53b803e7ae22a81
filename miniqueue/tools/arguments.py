"""The command line of a tool: flags of its own, settings of the broker, and words.

    miniqueue check -db ./data            -db is a setting: also MINIQUEUE_DB, also a key of the file of -config
    miniqueue export -o lines letters     -o is a flag of the tool, `letters` a word; all behind -- are words

Settings go through `server.config`, so that a tool finds what the broker finds.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from miniqueue.errors import ConfigError
from miniqueue.server.config import Config, Question, load
from miniqueue.server.escaping import quote
from miniqueue.server.sources import split_flag


@dataclass(frozen=True, slots=True)
class Arguments:
    """What a tool was given.

    Attributes:
      config: of the broker, of which a tool takes what it needs.
      flags: the text of every flag that was on the command line, settings too, by name without the dash.
      words: what is no flag, in order.
    """

    config: Config
    flags: Mapping[str, str]
    words: tuple[str, ...]


def read(
    argv: Sequence[str], environ: Mapping[str, str], *, settings: Sequence[str], own: Sequence[str] = ()
) -> Arguments | Question:
    """Read the command line behind the tool's name; `config` is always among the settings.

    Args:
      argv: the words.
      environ: the environment.
      settings: names of the settings that the tool takes as flags.
      own: names of the tool's own flags; all take a value.

    Raises ConfigError with every problem.
    """
    words: list[str] = []
    flags: dict[str, str] = {}
    problems: list[str] = []
    left = deque(argv)
    while left:
        word = left.popleft()
        name, text = split_flag(word)
        if word == "--":
            words += left
            break
        if name is None:
            words.append(word)
        elif name in ("h", "help"):
            return Question.HELP
        elif name not in (*settings, *own, "config"):
            problems.append(f"flag {quote('-' + name)}: this command has no such flag; see -h")
        elif text is None and not left:
            problems.append(f"flag -{name}: no value")
        else:
            flags[name] = left.popleft() if text is None else text
    return Arguments(_config(flags, own, environ, problems), flags, tuple(words))


def file_to_make(flag: str, text: str) -> Path:
    """Return the path of a file that a flag names; raises ConfigError for what can be none, such as `/`."""
    path = Path(text)
    if not path.name:
        raise ConfigError([f"flag -{flag}: {quote(text)}: want a file"])
    return path


def _config(flags: Mapping[str, str], own: Sequence[str], environ: Mapping[str, str], problems: list[str]) -> Config:
    of_settings = [f"-{name}={text}" for name, text in flags.items() if name not in own]
    try:
        config = load(of_settings, environ)
    except ConfigError as exc:
        raise ConfigError(problems + exc.problems) from exc
    if problems:
        raise ConfigError(problems)
    assert isinstance(config, Config)  # questions are no settings
    return config
