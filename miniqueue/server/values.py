"""From the text of a setting to its value: one small parser for each kind of setting.

A parser takes the text as it was written and returns the value, or raises `ConfigError` with one line that
says what is wanted. It knows neither the setting nor where the text came from; `config` puts that in front.
"""

import re
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from miniqueue.core.receiving import MAX_LEASE_SECONDS
from miniqueue.errors import ConfigError
from miniqueue.server.durations import parse_positive_duration

GRANIAN_VERSION = "2.8.7"

_SIZE = re.compile(r"([0-9]{1,12})(|KB|MB|GB|KiB|MiB|GiB)")
_BYTES = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
# What Redis accepts as one string (proto-max-bulk-len), and far below what one LevelDB value holds.
_MAX_SIZE_BYTES = 512 * 2**20
# The spellings of strconv.ParseBool in Go.
_SWITCHES = dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True) | dict.fromkeys(
    ("0", "f", "F", "FALSE", "false", "False"), False
)


def parse_switch(text: str) -> bool:
    """Return the value of a boolean, in any spelling that Go takes."""
    if text not in _SWITCHES:
        raise ConfigError(["want true or false"])
    return _SWITCHES[text]


def parse_optional_switch(text: str) -> bool | None:
    """Return the value of a boolean, or None for the empty text."""
    return parse_switch(text) if text else None


def parse_path(text: str) -> Path:
    """Return the path of a file or directory."""
    if not text or "\0" in text:
        raise ConfigError(["want a path"])
    return Path(text)


def parse_optional_path(text: str) -> Path | None:
    """Return the path of a file, or None for the empty text."""
    return parse_path(text) if text else None


def parse_host(text: str) -> str:
    """Return the name or address of an interface; the operating system decides whether it exists."""
    if not text or not text.isprintable() or " " in text:
        raise ConfigError(["want an address to listen on, such as 127.0.0.1, or 0.0.0.0 for all of them"])
    return text


def parse_port(text: str) -> int:
    """Return a TCP port; 0 asks the operating system for a free one."""
    if not re.fullmatch("[0-9]{1,5}", text) or int(text) > 65535:
        raise ConfigError(["want a port from 0 to 65535 (0: any free port)"])
    return int(text)


def parse_size(text: str) -> int:
    """Return a number of bytes: `1048576`, `1024KiB`, `1MiB` (powers of 1024), `1MB` (powers of 1000)."""
    size = _SIZE.fullmatch(text)
    size_bytes = int(size[1]) * _BYTES[size[2]] if size else 0
    if not 1 <= size_bytes <= _MAX_SIZE_BYTES:
        raise ConfigError(["want a size from 1 to 512MiB, in bytes or with KB, MB, GB, KiB, MiB or GiB"])
    return size_bytes


def parse_space(text: str) -> int:
    """Return how many bytes of a disk are meant, written like a size; 0 means none."""
    size = _SIZE.fullmatch(text)
    if size is None:
        raise ConfigError(["want a size, in bytes or with KB, MB, GB, KiB, MiB or GiB (0: none)"])
    return int(size[1]) * _BYTES[size[2]]


def parse_count(text: str) -> int:
    """Return a number of things; 0 means no limit."""
    if not re.fullmatch("[0-9]{1,15}", text):
        raise ConfigError(["want a number (0: no limit)"])
    return int(text)


def number_up_to(most: int) -> Callable[[str], int]:
    """Return a parser of numbers from 1 to `most`."""

    def parse(text: str) -> int:
        if not re.fullmatch("[0-9]{1,9}", text) or not 1 <= int(text) <= most:
            raise ConfigError([f"want a number from 1 to {most}"])
        return int(text)

    return parse


def parse_lease(text: str) -> float:
    """Return how long a lease is, in seconds."""
    seconds = parse_positive_duration(text)
    if seconds > MAX_LEASE_SECONDS:
        raise ConfigError(["want a duration of at most 12h"])
    return seconds


def parse_level(text: str) -> str:
    """Return a log level."""
    levels = ("debug", "info", "warning", "error", "disabled")
    if text not in levels:
        raise ConfigError([f"invalid log level, see -h; want one of {', '.join(levels)}"])
    return text


def parse_http_server(text: str) -> str:
    """Return the name of an HTTP server that is installed.

    Granian is an extra, and is embedded by means that it does not promise, so it must be the version of the extra.
    """
    name = one_of("hypercorn", "granian")(text)
    if name == "granian" and (found := _installed("granian")) != GRANIAN_VERSION:
        hint = "install the extra: pip install 'miniqueue[granian]'"
        raise ConfigError([f"want version {GRANIAN_VERSION} of granian, found {found or 'none'}; {hint}"])
    return name


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def one_of(*choices: str) -> Callable[[str], str]:
    """Return a parser that takes one of `choices`."""

    def parse_choice(text: str) -> str:
        if text not in choices:
            raise ConfigError([f"want one of {', '.join(choices)}"])
        return text

    return parse_choice
