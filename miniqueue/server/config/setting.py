"""One setting: its names in each source, and the parser that makes a value of its text.

There is one small parser for each kind of setting. A parser gets the text as the operator wrote it, and returns the
value or raises `ConfigError` with one line: what is invalid and what is allowed. It knows neither the setting nor the
source of the text; `config` puts those before the line. All settings are in `settings_table`.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from miniqueue.core.options.consume import MAX_LEASE_SECONDS
from miniqueue.errors import ConfigError
from miniqueue.server.config.durations import parse_positive_duration

GRANIAN_VERSION = "2.8.7"
MAX_PORT = 65535
VARIABLE_PREFIX = "MINIQUEUE_"
#: A variable and no setting: other users of the machine can see a flag, and others can read most TOML files.
PASSWORD_VARIABLE = VARIABLE_PREFIX + "PASSWORD"

_SIZE = re.compile(r"([0-9]{1,12})(|KB|MB|GB|KiB|MiB|GiB)")
_BYTES = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
# Redis's default limit for one string (proto-max-bulk-len); far below what one LevelDB value can hold.
_MAX_SIZE_BYTES = 512 * 2**20
# The forms that Go's strconv.ParseBool accepts.
_SWITCHES = dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True) | dict.fromkeys(
    ("0", "f", "F", "FALSE", "false", "False"), False
)


def parse_switch(text: str) -> bool:
    """Return the value of a boolean, in any form that Go accepts."""
    if text not in _SWITCHES:
        raise ConfigError(["invalid value; must be true or false"])
    return _SWITCHES[text]


def parse_optional_switch(text: str) -> bool | None:
    """Return the value of a boolean, or None for the empty text."""
    return parse_switch(text) if text else None


def parse_path(text: str) -> Path:
    """Return the path of a file or directory."""
    if not text or "\0" in text:
        raise ConfigError(["invalid path; must not be empty or contain a NUL character"])
    return Path(text)


def parse_optional_path(text: str) -> Path | None:
    """Return the path of a file, or None for the empty text."""
    return parse_path(text) if text else None


def parse_host(text: str) -> str:
    """Return the name or address of an interface; whether it exists is checked when the broker listens on it."""
    if not text or not text.isprintable() or " " in text:
        raise ConfigError(
            ["invalid address; must be an address to listen on, such as 127.0.0.1, or 0.0.0.0 for all interfaces"]
        )
    return text


def parse_port(text: str) -> int:
    """Return a TCP port; 0 asks the operating system for a free one."""
    if not re.fullmatch("[0-9]{1,5}", text) or int(text) > MAX_PORT:
        raise ConfigError([f"invalid port; must be 0 to {MAX_PORT}; 0 means any free port"])
    return int(text)


def parse_first_port(text: str) -> int:
    """Return the first TCP port of several; 0 means none."""
    if not re.fullmatch("[0-9]{1,5}", text) or int(text) > MAX_PORT:
        raise ConfigError([f"invalid port; must be 1 to {MAX_PORT}; 0 means no ports"])
    return int(text)


def parse_announced_host(text: str) -> str:
    """Return the name or address by which clients reach the broker, without a port; empty for none."""
    is_name = text.isprintable() and not set(text) & set(" /@[]") and text.count(":") != 1
    if not is_name or text in ("0.0.0.0", "::"):
        raise ConfigError(["invalid host; must be a name or an address that clients can connect to, without a port"])
    return text


def parse_size(text: str) -> int:
    """Return a number of bytes: `1048576`, `1024KiB`, `1MiB` (powers of 1024), `1MB` (powers of 1000)."""
    size = _SIZE.fullmatch(text)
    size_bytes = int(size[1]) * _BYTES[size[2]] if size else 0
    if not 1 <= size_bytes <= _MAX_SIZE_BYTES:
        raise ConfigError(["invalid size; must be 1 to 512MiB, in bytes or with KB, MB, GB, KiB, MiB, or GiB"])
    return size_bytes


def parse_space(text: str) -> int:
    """Return a number of bytes, written like a size, but without a maximum; it can be 0."""
    size = _SIZE.fullmatch(text)
    if size is None:
        raise ConfigError(["invalid size; must be 0 or more, in bytes or with KB, MB, GB, KiB, MiB, or GiB"])
    return int(size[1]) * _BYTES[size[2]]


def parse_count(text: str) -> int:
    """Return a maximum number; 0 means unlimited."""
    if not re.fullmatch("[0-9]{1,15}", text):
        raise ConfigError(["invalid number; must be 0 to 999999999999999; 0 means unlimited"])
    return int(text)


def number_up_to(maximum: int) -> Callable[[str], int]:
    """Return a parser of numbers from 1 to `maximum`."""

    def parse(text: str) -> int:
        if not re.fullmatch("[0-9]{1,9}", text) or not 1 <= int(text) <= maximum:
            raise ConfigError([f"invalid number; must be 1 to {maximum}"])
        return int(text)

    return parse


def parse_lease(text: str) -> float:
    """Return the duration of a lease, in seconds."""
    seconds = parse_positive_duration(text)
    if seconds > MAX_LEASE_SECONDS:
        raise ConfigError(["lease too long; must be at most 12h"])
    return seconds


def parse_level(text: str) -> str:
    """Return a log level."""
    levels = ("debug", "info", "warning", "error", "disabled")
    if text not in levels:
        raise ConfigError([f"invalid log level; must be one of {', '.join(levels)}"])
    return text


def parse_http_server(text: str) -> str:
    """Return the name of an HTTP server that is installed.

    Granian must have the exact version of the extra: miniqueue embeds it through functions that Granian does not
    document, which can change in any release.
    """
    name = one_of("hypercorn", "granian")(text)
    if name == "granian" and (installed := _installed_version("granian")) != GRANIAN_VERSION:
        problem = f"requires granian {GRANIAN_VERSION}; installed: {installed or 'none'}"
        raise ConfigError([f"{problem}; run pip install 'miniqueue[granian]'"])
    return name


def _installed_version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def one_of(*choices: str) -> Callable[[str], str]:
    """Return a parser that accepts one of `choices`."""

    def parse_choice(text: str) -> str:
        if text not in choices:
            raise ConfigError([f"invalid value; must be one of {', '.join(choices)}"])
        return text

    return parse_choice


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of the broker: a row of `settings_table.SETTINGS`."""

    name: str
    field: str
    """The attribute of `Config`; its name includes the unit, which `name` leaves out."""
    default: str
    """The text that applies if no source sets it; parsed like any other text."""
    parse: Callable[[str], object]
    """Returns the value of a text; raises `ConfigError` if the text is invalid."""
    placeholder: str
    """The name of the value in `-h`; empty for a switch, which needs no value."""
    help: str

    @property
    def flag(self) -> str:
        """The flag as written on the command line; a second dash is accepted too."""
        return "-" + self.name

    @property
    def variable(self) -> str:
        """The name of the environment variable."""
        return VARIABLE_PREFIX + self.name.upper().replace("-", "_")

    @property
    def is_switch(self) -> bool:
        """Whether the flag alone means true, so that a value must follow `=`."""
        return not self.placeholder
