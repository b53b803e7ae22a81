"""The sources of settings: command line, environment, file. Each is read as a list of `SettingText`.

Only names are interpreted here, not values. A name that is not a setting is a problem, and so is a flag without its
value.

The command line follows Go's `flag` package, because scripts for miniqueue rely on it: one dash or two, `-port 8080`
or `-port=8080`, a switch alone or with `=`, and the last text wins. `argparse` cannot do this: it stops at the first
mistake, while an operator wants to see all of them at once, and it lets a switch take the next argument as its value,
which Go does not.
"""

import difflib
import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from miniqueue.core.settings.defaults import NO_DEFAULTS, TopicDefaults
from miniqueue.server.config.service_variables import is_service_variable
from miniqueue.server.config.setting import PASSWORD_VARIABLE, VARIABLE_PREFIX, Setting
from miniqueue.server.config.settings_table import SETTINGS
from miniqueue.server.config.tables import parse_table
from miniqueue.server.config.topic_defaults import KEY, parse_topic_defaults
from miniqueue.server.process.escaping import escape, quote

_FLAG = re.compile(r"--?(?P<name>[^-=][^=]*)(?:=(?P<text>.*))?", re.DOTALL)
_MAX_INTEGER = 2**63  # TOML requires no more; Python refuses to print much longer integers


class Question(Enum):
    """A request of the command line that is answered instead of starting a broker."""

    HELP = "help"
    VERSION = "version"


@dataclass(frozen=True, slots=True)
class SettingText:
    """The text that one source contains for one setting."""

    origin: str
    """The source, for error messages: `flag -port`, `variable MINIQUEUE_PORT`, `file x.toml key port`."""
    setting: Setting
    text: str


@dataclass(slots=True)
class Reading:
    """The content of one source."""

    texts: list[SettingText] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    question: Question | None = None
    password: str = field(default="", repr=False)
    topic_defaults: TopicDefaults = NO_DEFAULTS


_QUESTIONS = {"h": Question.HELP, "help": Question.HELP, "version": Question.VERSION}
#: The commands, without a dash, that the first argument can be.
_QUESTION_WORDS = {"help": Question.HELP, "version": Question.VERSION}


#: Variables of commands that are clients: a person who has set them can still run a broker or a tool.
_OF_CLIENTS = frozenset({"MINIQUEUE_URL", "MINIQUEUE_CONTEXT"})


def split_flag(word: str) -> tuple[str | None, str | None]:
    """Return a flag's name without dashes and the text after its `=`; None for each that is missing."""
    flag = _FLAG.fullmatch(word)
    return (None, None) if flag is None else (flag["name"], flag["text"])


def read_flags(argv: Sequence[str]) -> Reading:
    """Read the arguments of the command line, without the program's name."""
    reading = Reading()
    if argv and argv[0] in _QUESTION_WORDS:
        reading.question = _QUESTION_WORDS[argv[0]]
    known = {setting.name: setting for setting in SETTINGS}
    words = deque(argv)
    while words and reading.question is None:
        word = words.popleft()
        flag = _FLAG.fullmatch(word)
        if flag is None:
            reading.problems.append(f"argument {quote(word)}: neither a flag nor a command; see -h")
        elif flag["name"] in _QUESTIONS:
            reading.question = _QUESTIONS[flag["name"]]
        elif flag["name"] not in known:
            reading.problems.append(_unknown("flag", "-" + flag["name"], (s.flag for s in SETTINGS)))
            _skip_value(flag["text"], words)
        else:
            _take_flag(known[flag["name"]], flag["text"], words, reading)
    return reading


def read_variables(environ: Mapping[str, str]) -> Reading:
    """Read the variables whose names start with `MINIQUEUE_`, except those of clients and of Services of Kubernetes."""
    reading = Reading()
    known = {setting.variable: setting for setting in SETTINGS}
    for name in sorted(name for name in environ if name.startswith(VARIABLE_PREFIX)):
        if name in _OF_CLIENTS or is_service_variable(name, environ[name]):
            continue
        if name == PASSWORD_VARIABLE:
            reading.password = environ[name]
        elif name in known:
            reading.texts.append(SettingText(f"variable {name}", known[name], environ[name]))
        else:
            reading.problems.append(_unknown("variable", name, [*known, PASSWORD_VARIABLE]))
    return reading


def read_file(path: Path) -> Reading:
    """Read a file whose keys are the names of the settings, and `defaults`."""
    reading = Reading()
    source = f"file {escape(str(path))}"
    try:
        table = parse_table(path.read_text("utf-8"), path.suffix)
    except (OSError, ValueError, RecursionError) as error:  # ValueError: not UTF-8, or not in the format
        reading.problems.append(f"flag -config: {source}: {escape(_reason(error))}")
        return reading
    known = {setting.name: setting for setting in SETTINGS if setting.name != "config"}
    for name, value in table.items():
        if name == KEY:
            reading.topic_defaults = parse_topic_defaults(value, source, reading.problems)
        else:
            _take_key(source, name, known, value, reading)
    return reading


def _take_flag(setting: Setting, text: str | None, words: deque[str], reading: Reading) -> None:
    """Add the flag with the text after `=`, else with the next argument; as in Go, that can start with a dash."""
    if text is None and setting.is_switch:
        text = "true"
    elif text is None and words:
        text = words.popleft()
    if text is None:
        reading.problems.append(f"flag {setting.flag}: missing value; use {setting.flag} {setting.placeholder}")
    else:
        reading.texts.append(SettingText(f"flag {setting.flag}", setting, text))


def _skip_value(text: str | None, words: deque[str]) -> None:
    """Skip the probable value of an unknown flag, so that one mistake is reported as one problem."""
    if text is None and words and not words[0].startswith("-"):
        words.popleft()


def _take_key(source: str, name: str, known: Mapping[str, Setting], value: object, reading: Reading) -> None:
    text = _text_of(value)
    if name not in known:
        reading.problems.append(_unknown(f"{source} key", name, known))
    elif text is None:
        reading.problems.append(f"{source} key {name}: invalid value; must be a string, a number, true, or false")
    else:
        reading.texts.append(SettingText(f"{source} key {name}", known[name], text))


def _text_of(value: object) -> str | None:
    """Return a value of the file as a flag would contain it; None if a flag cannot."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() if abs(value) >= _MAX_INTEGER:
            return "an integer of more than 64 bits"
        case str() | int() | float():
            return str(value)
        case _:
            return None


def _unknown(source: str, name: str, known: Iterable[str]) -> str:
    """Return the problem of a name that is not a setting, with the nearest name that is."""
    nearest = difflib.get_close_matches(escape(name), list(known), n=1)
    return f"{source} {escape(name)}: no such setting" + (f"; did you mean {nearest[0]}?" if nearest else "")


def _reason(error: Exception) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)
