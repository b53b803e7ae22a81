"""The names that stay as they are from release to release, by kind, from the tables that define them."""

import importlib
import inspect
import re
from collections.abc import Callable, Iterator

import click

import miniqueue_client as client
from miniqueue import cli, commands
from miniqueue.access.rights import ROUTES
from miniqueue.commands.program import command_named
from miniqueue.core.settings.quotas import FIELDS as QUOTAS
from miniqueue.core.settings.settings import FIELDS
from miniqueue.errors import MiniqueueError
from miniqueue.server import run  # noqa: F401 - imports all that has errors of its own
from miniqueue.server.config.setting import PASSWORD_VARIABLE
from miniqueue.server.config.settings_table import SETTINGS
from miniqueue.server.monitor.metrics import ROWS
from miniqueue.server.monitor.topic_metrics import FAMILIES, GROUP_FAMILIES, PARTITION_FAMILY
from miniqueue.server.resp.commands.table import COMMANDS
from miniqueue.server.resp.refusals import REFUSAL_ROWS
from miniqueue.tools import TOOLS

METRICS = (*FAMILIES, *GROUP_FAMILIES, PARTITION_FAMILY, *ROWS, *REFUSAL_ROWS)


def names() -> dict[str, list[str]]:
    """Return the names of the present version, each kind sorted."""
    kinds = {
        "flags": [setting.flag for setting in SETTINGS],
        "variables": [PASSWORD_VARIABLE, *(setting.variable for setting in SETTINGS)],
        "subcommands": list(subcommands()),
        "topic settings": list(FIELDS),
        "quotas": list(QUOTAS),
        "commands": [word for name, entry in COMMANDS.items() for word in command_words(name.decode(), entry.syntax)],
        "routes": [f"{method} {path}" for method, path in ROUTES],
        "error codes": list(error_codes(MiniqueueError)),
        "exit codes": [f"{kind.code} {code}" for kind, code in cli.EXIT_CODES],
        "metrics": [f"miniqueue_{row.name} {' '.join(row.labels)}".rstrip() for row in METRICS],
        "client": list(client_calls()),
    }
    return {kind: sorted(set(words)) for kind, words in kinds.items()}


def subcommands() -> Iterator[str]:
    """Yield each subcommand, and with each of the flags that its help lists."""
    for name, tool in TOOLS.items():
        lines = re.findall(r"^ +-.+$", importlib.import_module(tool.module).USAGE, re.MULTILINE)
        yield from (name, *(f"{name} {flag}" for line in lines for flag in re.findall(r" (-[a-z-]+)", line)))
    for name in commands.COMMANDS:
        yield from _with_flags(name, command_named(name))


def _with_flags(name: str, command: click.Command) -> Iterator[str]:
    """Yield a command, and with each of its flags, with one dash; and the commands of it."""
    flags = [flag for param in command.params if isinstance(param, click.Option) for flag in param.opts]
    yield from (name, *(f"{name} {flag.replace('--', '-', 1)}" for flag in flags))
    if isinstance(command, click.Group):
        for inner_name, inner in command.commands.items():
            yield from _with_flags(f"{name} {inner_name}", inner)


def command_words(name: str, syntax: object) -> list[str]:
    """Return a command, and with each of its subcommands and options."""
    return [name, *(f"{name} {word}" for word in re.findall(r"\b[A-Z][A-Z-]+\b", str(syntax)))]


def error_codes(kind: type[MiniqueueError]) -> Iterator[str]:
    yield kind.code
    for derived in kind.__subclasses__():
        if derived.__module__.startswith(("miniqueue.", "miniqueue_client.")):
            yield from error_codes(derived)


def client_calls() -> Iterator[str]:
    """Yield what the Python client exports, with the methods of its classes and their parameters."""
    for name in client.__all__:
        exported = getattr(client, name)
        yield name
        if inspect.isclass(exported):
            for method, function in inspect.getmembers(exported, inspect.isfunction):
                if not method.startswith("_") or method == "__init__":
                    yield from _with_parameters(f"{name}.{method}", function)
        elif callable(exported):
            yield from _with_parameters(name, exported)


def _with_parameters(name: str, function: Callable[..., object]) -> Iterator[str]:
    yield name
    yield from (f"{name} {parameter}" for parameter in inspect.signature(function).parameters if parameter != "self")
