"""The command line of a tool: its own flags, settings of the broker, and words; and helpers that several tools use.

    miniqueue check -db ./data            -db is a setting: also MINIQUEUE_DB, also a key of the file of -config
    miniqueue export -o lines letters     -o is a flag of the tool, `letters` is a word; everything after -- is a word

Settings are read by `server.config`, so a tool uses the values that the broker uses. `argparse` cannot replace this
reader: its options do not also come from the environment and a file, and it stops at the first problem.
"""

import sys
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from miniqueue.errors import ConfigError
from miniqueue.server.config.config import Config, load
from miniqueue.server.config.sources import split_flag
from miniqueue.server.process.escaping import quote
from miniqueue.server.security.user_source import password_of


@dataclass(frozen=True, slots=True)
class Arguments:
    """The parsed command line of a tool.

    Attributes:
      config: settings of the broker; a tool uses a few of them.
      flags: text of every flag on the command line, settings included, by name without the dash.
      words: words that are not flags, in order.
    """

    config: Config
    flags: Mapping[str, str]
    words: tuple[str, ...]


def read(
    argv: Sequence[str], environ: Mapping[str, str], usage: str, *, settings: Sequence[str], own: Sequence[str] = ()
) -> Arguments | None:
    """Parse the command line after the tool's name; if it asks for help, print `usage` and return None.

    Args:
      argv: words of the command line.
      environ: environment variables.
      usage: help text of the tool.
      settings: names of the settings that the tool accepts as flags; `config` is always accepted.
      own: names of the tool's own flags; each requires a value.

    Raises ConfigError with every problem.
    """
    words: list[str] = []
    flags: dict[str, str] = {}
    problems: list[str] = []
    remaining = deque(argv)
    while remaining:
        word = remaining.popleft()
        name, text = split_flag(word)
        if word == "--":
            words += remaining
            break
        if name is None:
            words.append(word)
        elif name in ("h", "help"):
            sys.stdout.write(usage)
            return None
        elif name not in (*settings, *own, "config"):
            problems.append(f"flag {quote('-' + name)}: this command has no such flag; see -h")
        elif text is None and not remaining:
            problems.append(f"flag -{name}: no value")
        else:
            flags[name] = remaining.popleft() if text is None else text
    return Arguments(_config(flags, own, environ, problems), flags, tuple(words))


def file_to_make(flag: str, text: str) -> Path:
    """Return the path of the file that a flag names; raise ConfigError if no file can have it, such as `/`."""
    path = Path(text)
    if not path.name:
        raise ConfigError([f"flag -{flag}: invalid path: {quote(text)}; must end with a file name"])
    return path


def read_token(file: str) -> str:
    """Return the token in a file that `miniqueue user` wrote; raise ConfigError for -token-file."""
    try:
        return Path(file).read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError([f"flag -token-file: no token can be read from {quote(file)}"]) from exc


def read_secret(options: Arguments) -> str | None:
    """Return the token of -token-file, else the password of the settings, as the broker has it; None if there is none.

    In a container, a tool has the variables of the broker, and so its password.
    """
    if (file := options.flags.get("token-file")) is not None:
        return read_token(file)
    return password_of(options.config) if options.config.has_password else None


def counted(count: int, noun: str) -> str:
    """Return a count and its noun: `0 keys`, `1 key`, `2 keys`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _config(flags: Mapping[str, str], own: Sequence[str], environ: Mapping[str, str], problems: list[str]) -> Config:
    setting_flags = [f"-{name}={text}" for name, text in flags.items() if name not in own]
    try:
        config = load(setting_flags, environ)
    except ConfigError as exc:
        raise ConfigError(problems + exc.problems) from exc
    if problems:
        raise ConfigError(problems)
    assert isinstance(config, Config)  # a question is a flag that is no setting
    return config
