"""The file of contexts: brokers with names, and the one that is used where none is named.

    $XDG_CONFIG_HOME/miniqueue/contexts.toml, or ~/.config/miniqueue/contexts.toml, mode 0600

    current = "prod"

    [contexts.prod]
    url = "rediss://queue.example.com:6379"
    token-file = "/home/ada/prod.token"

A token or a password stays in its own file, unless it is part of a URL. A file that other users can read is refused.
It is replaced as a whole, so that two writers leave one of two complete files.
"""

import json
import os
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Final

from miniqueue.errors import ConfigError
from miniqueue.server.process.escaping import escape, quote

_OTHERS: Final = 0o077
_MODE: Final = 0o600
_FOLDER_MODE: Final = 0o700


@dataclass(frozen=True, slots=True)
class Context:
    """Which broker to use, and as which user.

    Attributes:
      url: address of the broker, `redis://host:port` or `rediss://host:port`.
      user: name of the user; "": the owner of the token, or no user.
      password_file: file with the password of the user; "": none.
      token_file: file with a token; "": none.
      ca_file: file with the certificates to trust; "": those of the machine.
      cert_file: file with a client certificate; "": none.
      key_file: file with its private key; "": it is in `cert_file`.
    """

    url: str = field(repr=False)
    user: str = ""
    password_file: str = ""
    token_file: str = ""
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""


@dataclass(frozen=True, slots=True)
class Contexts:
    """The content of the file.

    Attributes:
      named: the contexts, by name.
      current: name of the context that is used where none is named; "": none.
    """

    named: Mapping[str, Context] = field(default_factory=dict)
    current: str = ""


def contexts_path(environ: Mapping[str, str]) -> Path:
    """Return the path of the file."""
    folder = environ.get("XDG_CONFIG_HOME") or os.path.join(environ.get("HOME") or "/", ".config")
    return Path(folder) / "miniqueue" / "contexts.toml"


def read_contexts(environ: Mapping[str, str]) -> Contexts:
    """Return the contexts, none if there is no file; raises ConfigError for a file that is invalid or not private."""
    path = contexts_path(environ)
    shown = escape(str(path))
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_mode & _OTHERS:
                raise ConfigError([f"{shown}: other users can read or change it; run chmod 600"])
            return _parsed(tomllib.load(file))
    except (FileNotFoundError, NotADirectoryError):
        return Contexts()
    except OSError as exc:
        raise ConfigError([f"{shown}: {exc.strerror}"]) from exc
    except (ValueError, TypeError, AttributeError) as exc:  # not TOML, or not such a table
        raise ConfigError([f"{shown}: invalid file of contexts: {escape(str(exc))}"]) from exc


def write_contexts(environ: Mapping[str, str], contexts: Contexts) -> None:
    """Replace the file; raises ConfigError if that fails."""
    path = contexts_path(environ)
    try:
        path.parent.mkdir(_FOLDER_MODE, parents=True, exist_ok=True)
        number, name = tempfile.mkstemp(dir=path.parent, prefix=".contexts-")  # its mode is 0600
        try:
            with os.fdopen(number, "w", encoding="utf-8") as file:
                file.write(_written(contexts))
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as exc:
        raise ConfigError([f"{escape(str(path))}: cannot be written: {exc.strerror}"]) from exc


def context_named(contexts: Contexts, name: str) -> Context:
    """Return a context; raises ConfigError with the names that exist."""
    if name not in contexts.named:
        known = ", ".join(sorted(contexts.named)) or "none; see miniqueue context add -h"
        raise ConfigError([f"no such context: {quote(name)}; there are: {known}"])
    return contexts.named[name]


def _parsed(table: Mapping[str, object]) -> Contexts:
    if unknown := table.keys() - {"current", "contexts"}:
        raise ValueError(f"unknown key {min(unknown)}")
    tables = table.get("contexts", {})
    if not isinstance(tables, Mapping):
        raise ValueError("contexts is no table")
    named = {name: _context(name, members) for name, members in tables.items()}
    current = str(table.get("current", ""))
    return Contexts(named, current if current in named else "")


def _context(name: str, members: Mapping[str, object]) -> Context:
    texts = {key.replace("-", "_"): value for key, value in members.items()}
    if unknown := texts.keys() - {each.name for each in fields(Context)}:
        raise ValueError(f"unknown key {min(unknown).replace('_', '-')} of context {name}")
    if "url" not in texts or not all(isinstance(text, str) for text in texts.values()):
        raise ValueError(f"context {name} must have a url, and texts")
    return Context(**{key: str(text) for key, text in texts.items()})


def _written(contexts: Contexts) -> str:
    lines = [f"current = {_string(contexts.current)}\n"] if contexts.current else []
    for name, context in sorted(contexts.named.items()):
        members = [(each.name.replace("_", "-"), getattr(context, each.name)) for each in fields(Context)]
        lines.append(f"\n[contexts.{_string(name)}]\n")
        lines += [f"{key} = {_string(text)}\n" for key, text in members if text]
    return "".join(lines)


def _string(text: str) -> str:
    """Return a string of TOML; all that JSON escapes is escaped the same way there, except DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
