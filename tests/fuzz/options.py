"""What an operator writes: command line, environment, file in TOML, JSON or YAML, and the values of settings.

Documented: ConfigError, of which each problem is one printable line.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random

from miniqueue.errors import ConfigError
from miniqueue.server.config import durations
from miniqueue.server.config import setting as values
from miniqueue.server.config.config import Config, Question, load
from miniqueue.server.config.setting import Setting
from miniqueue.server.config.settings_table import SETTINGS
from miniqueue.tools import arguments
from tests.fuzz.engine import Target, attempt, chance_of
from tests.fuzz.pieces import some, text

_TEXTS = (
    *(
        "1s",
        "1m30s",
        "1.5h",
        "100ns",
        "2d",
        "0",
        "-1s",
        ".5s",
        "1.s",
        "1µs",
        "8080",
        "65536",
        "1MiB",
        "64KiB",
        "1000000MB",
    ),
    *("true", "F", "info", "always", "memory", "hypercorn", "127.0.0.1", "::", "./x", "", "interval", "1e3", "nan"),
)
_TOKENS = (
    *(setting.flag for setting in SETTINGS),
    *_TEXTS,
    *(
        "--",
        "-",
        "-h",
        "=",
        "'''",
        '"""',
        "[",
        "]",
        "{",
        "#",
        "1979-05-27",
        ": ",
        "\n  ",
        "- ",
        "&a",
        "*a",
        "!!",
        "}",
        "defaults",
        "max_deliveries",
    ),
)
_PARSERS: tuple[Callable[[str], object], ...] = (
    durations.parse_duration,
    values.parse_path,
    values.parse_optional_path,
    *dict.fromkeys(setting.parse for setting in SETTINGS),
)


def _make(chance: Random) -> bytes:
    return "\n".join(_word(chance) for _ in range(chance.randint(1, 5))).encode()


def _word(chance: Random) -> str:
    setting = chance.choice(SETTINGS)
    value = chance.choice((chance.choice(_TEXTS), setting.default, text(chance)))
    match chance.randrange(6):
        case 0:
            return f"{setting.flag}={value}"
        case 1:
            return f"{setting.flag}\n{value}"
        case 2:
            return f"{setting.variable}={value}"
        case 3:
            return f"{setting.name} = {chance.choice((repr(value), value or '0'))}"
        case 4:
            return "".join(some(chance, _TOKENS, 3))
        case _:
            return value


def _check(content: bytes) -> None:
    words = [line.replace("\0", "") for line in content.decode("utf-8", "surrogateescape").split("\n")]
    _check_config(lambda: load([word for word in words if not _names_file(word)], {}))
    environ = dict(word.partition("=")[::2] for word in words if not word.startswith("MINIQUEUE_CONFIG"))
    _check_config(lambda: load([], environ))
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        _check_config(lambda: load(["-config", file.name], {}))
        for suffix in (".json", ".yaml"):
            link = Path(file.name + suffix)
            link.symlink_to(file.name)
            try:
                _check_config(lambda link=link: load(["-config", str(link)], {}))
            finally:
                link.unlink()
        _check_sources(chance_of(content), words[0], Path(file.name))
    _refuse_or_return(lambda: arguments.read(words, {}, "", settings=("db", "port"), own=("o",)))
    for parse in _PARSERS:
        _refuse_or_return(lambda parse=parse: parse(words[0]))


def _names_file(word: str) -> bool:
    """Whether a word, as a flag or behind one, has a file read that is not ours."""
    return "config" in word


def _check_config(read: Callable[[], Config | Question]) -> None:
    found = _refuse_or_return(read)
    assert isinstance(found, Config | Question | ConfigError)


def _check_sources(chance: Random, value: str, path: Path) -> None:
    """A setting has the same value wherever the text of it stands."""
    setting = chance.choice([setting for setting in SETTINGS if setting.name != "config"])
    found = [
        _refuse_or_return(lambda: load([f"{setting.flag}={value}"], {})),
        _refuse_or_return(lambda: load([f"-{setting.flag}={value}"], {})),
        _refuse_or_return(lambda: load([], {setting.variable: value})),
    ]
    if value.isprintable() and not {'"', "\\"} & set(value):
        path.write_text(f'{setting.name} = "{value}"\n', "utf-8")
        found.append(_refuse_or_return(lambda: load(["-config", str(path)], {})))
    assert len({_value(one, setting) for one in found}) == 1


def _value(found: object, setting: Setting) -> object:
    return getattr(found, setting.field) if isinstance(found, Config) else ConfigError


def _refuse_or_return(call: Callable[[], object]) -> object:
    found = attempt(call, documented=(ConfigError,))
    if isinstance(found, ConfigError):
        assert found.problems
        assert all(problem.isprintable() for problem in found.problems), found.problems
    return found


TARGET = Target("options", _make, _check, tokens=tuple(token.encode() for token in _TOKENS if token), quick_inputs=200)
