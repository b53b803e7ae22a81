"""Runs a command, and completes words of the command line for shells.

words ─▶ Click ─▶ the function of the command ─▶ exit code; an error of Click is a ConfigError of one line
"""

import importlib
from collections.abc import Mapping, Sequence

import click
from click.shell_completion import CompletionItem

from miniqueue.commands import COMMANDS
from miniqueue.commands.shell.completing import PROGRAM, VARIABLE, completions
from miniqueue.commands.shell.flags import Flag, Shell, problem_of
from miniqueue.commands.shell.values import FILE_OR_FOLDER
from miniqueue.errors import ConfigError


def run(name: str, words: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run a command of `COMMANDS`; return its exit code. Raises MiniqueueError.

    Args:
      name: its name.
      words: the words after the name.
      environ: environment variables.
    """
    command = command_named(name)
    try:
        with command.make_context(f"{PROGRAM} {name}", list(words), obj=Shell(environ)) as context:
            code = command.invoke(context)
    except click.exceptions.Exit as exc:
        return exc.exit_code
    except click.ClickException as exc:
        raise ConfigError([problem_of(exc)]) from exc
    return code if isinstance(code, int) else 0


def command_named(name: str) -> click.Command:
    """Import a command of `COMMANDS`."""
    command = importlib.import_module(COMMANDS[name].module).command
    assert isinstance(command, click.Command)
    return command


class _Root(click.Group):
    """Everything that can follow `miniqueue`: commands, which are imported when needed, tools, and flags.

    Args:
      others: summaries of what is no command of Click, by name.
      broker_flags: the flags of the broker.
    """

    def __init__(self, others: Mapping[str, str], broker_flags: Sequence[str]) -> None:
        super().__init__(PROGRAM, params=[Flag([name]) for name in broker_flags])
        self._others = others

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all."""
        return [*COMMANDS, *self._others]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command; for a tool, one that completes files, since its flags are not Click's."""
        if cmd_name in COMMANDS:
            return command_named(cmd_name)
        if cmd_name not in self._others:
            return None
        words = click.Argument(["words"], nargs=-1, type=FILE_OR_FOLDER)
        return click.Command(cmd_name, params=[words], context_settings={"ignore_unknown_options": True})

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the names that begin as a word does, without importing all commands; or flags."""
        summaries = {name: entry.summary for name, entry in COMMANDS.items()} | dict(self._others)
        names = [CompletionItem(name, help=text) for name, text in summaries.items() if name.startswith(incomplete)]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]


def complete(others: Mapping[str, str], broker_flags: Sequence[str], environ: Mapping[str, str]) -> str:
    """Return what completes the words that the script of a shell has put in the environment.

    Args:
      others: summaries of the tools, by name.
      broker_flags: the flags of the broker.
      environ: environment variables.
    """
    return completions(_Root(others, broker_flags), environ[VARIABLE], Shell(environ))
