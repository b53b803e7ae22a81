"""Commands of Click with the flags of miniqueue.

    one dash or two      -url and --url, as the flags of the broker; help shows two
    suggestions          `--prioritiy` and `topic shwo` are refused with what is nearest
    one-line errors      what failed, the value, what is allowed; `problem_of`

Flags that say which broker to use are listed after those of the command itself.
"""

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from miniqueue.commands.shell.values import TEXT
from miniqueue.server.process.escaping import escape, quote

F = TypeVar("F", bound=Callable[..., Any])

_HELP_NAMES = ("-h", "--help", "-help")
#: Maximum length of the summary of a command.
_MAX_SUMMARY = 100


@dataclass(frozen=True, slots=True)
class Shell:
    """What a command knows of the process: the object of its Click context.

    Attributes:
      environ: environment variables.
    """

    environ: Mapping[str, str]


class Flag(click.Option):
    """A flag, with one dash or two.

    Args:
      names: the names, with two dashes, or one for a letter; for Click, the name of the parameter.
      section: the section of the help in which it is listed; "": that of the command's own flags.
      options: options of Click.
    """

    def __init__(self, names: list[str], section: str = "", **options: Any) -> None:  # noqa: ANN401 - they are Click's
        super().__init__(names, **options)
        self.section = section

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:  # noqa: ANN401 - Click does not export its type
        """Add the flag to a parser, with one dash too."""
        shown = self.opts, self.secondary_opts
        self.opts, self.secondary_opts = _with_one_dash(self.opts), _with_one_dash(self.secondary_opts)
        super().add_to_parser(parser, ctx)
        self.opts, self.secondary_opts = shown


class Command(click.Command):
    """A command whose help lists the flags by their sections."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words; an unknown flag with one dash is reported as a whole, not by its first letter."""
        words = _with_values_apart(args, self.get_params(ctx))
        try:
            return super().parse_args(ctx, list(words))
        except click.NoSuchOption as exc:
            word = next((word for word in words if word.startswith(exc.option_name)), exc.option_name)
            names = [name for param in self.get_params(ctx) for name in (*param.opts, *param.secondary_opts)]
            raise click.NoSuchOption(_with_two_dashes(word), possibilities=names, ctx=ctx) from exc

    def get_short_help_str(self, limit: int = _MAX_SUMMARY) -> str:
        """Return the first sentence of the help, as a summary in lists; Click's limit is too short for most."""
        return super().get_short_help_str(limit)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the flags: those of the command, then each other section."""
        _format_flags(self.get_params(ctx), ctx, formatter)


class Group(click.Group):
    """A command that has commands."""

    def command(self, **options: Any) -> Callable[[Callable[..., Any]], click.Command]:  # type: ignore[override]  # noqa: ANN401 - they are Click's
        """Return a decorator that adds a function as a command."""
        return super().command(options_metavar="[FLAGS]", **options)

    command_class = Command
    group_class = type

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the flags, and the commands."""
        _format_flags(self.get_params(ctx), ctx, formatter)
        self.format_commands(ctx, formatter)


def command(**options: Any) -> Callable[[Callable[..., Any]], Command]:  # noqa: ANN401 - they are Click's
    """Return a decorator that makes a function a command; the docstring of the function is its help."""
    settings = {"help_option_names": list(_HELP_NAMES)}
    return click.command(cls=Command, context_settings=settings, options_metavar="[FLAGS]", **options)


def group(**options: Any) -> Callable[[Callable[..., Any]], Group]:  # noqa: ANN401 - they are Click's
    """Return a decorator that makes a function a group of commands."""
    settings = {"help_option_names": list(_HELP_NAMES)}
    return click.group(
        cls=Group, context_settings=settings, options_metavar="", subcommand_metavar="COMMAND [FLAGS] …", **options
    )


def flag(*names: str, **options: Any) -> Callable[[F], F]:  # noqa: ANN401 - they are Click's
    """Return a decorator that adds a flag with a value, a text if no type is named; or a switch with `is_flag`."""
    if not options.get("is_flag") and "count" not in options:
        options.setdefault("type", TEXT)
    return click.option(*names, cls=Flag, **options)


def argument(name: str, **options: Any) -> Callable[[F], F]:  # noqa: ANN401 - they are Click's
    """Return a decorator that adds an argument, a text if no type is named."""
    options.setdefault("type", TEXT)
    return click.argument(name, **options)


def shell() -> Shell:
    """Return what the running command knows of its process."""
    process = click.get_current_context().find_object(Shell)
    assert process is not None  # `program.run` sets it
    return process


def is_on_command_line(name: str) -> bool:
    """Whether the value of a parameter comes from the command line."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def problem_of(error: click.ClickException) -> str:
    """Return an error of Click as one line: what failed, the value, what is allowed, what to do."""
    match error:
        case click.exceptions.NoArgsIsHelpError():
            problem = f"{error.ctx.command_path}: missing command; must be {_commands_of(error.ctx)}; see -h"
        case click.NoSuchOption():
            nearest = _nearest(error.option_name, error.possibilities)
            problem = f"flag {quote(error.option_name)}: no such flag{nearest}; see -h"
        case click.NoSuchCommand():
            nearest = _nearest(error.command_name, error.possibilities)
            problem = f"argument {quote(error.command_name)}: no such command{nearest}; see -h"
        case click.MissingParameter() if error.param is not None:
            problem = f"missing {_kind(error.param)}; see -h"
        case click.BadParameter() if error.param is not None:
            problem = f"{_kind(error.param)}: {_sentence(error.message)}"
        case click.BadOptionUsage():
            problem = f"flag {error.option_name}: missing value; see -h"
        case _:
            problem = f"{_sentence(error.format_message())}; see -h"
    return problem


def _with_values_apart(words: Sequence[str], params: Sequence[click.Parameter]) -> list[str]:
    """Return words with `-o`, `json` for `-o=json`, in which the value would be `=json` for Click."""
    flags = [param for param in params if isinstance(param, click.Option) and not (param.is_flag or param.count)]
    names = {name for flag in flags for name in _with_one_dash(flag.opts)}
    letters = {name for name in names if len(name) == 2}
    apart, is_value = list[str](), False
    for index, word in enumerate(words):
        name, sign, value = word.partition("=")
        if word == "--" and not is_value:
            return [*apart, *words[index:]]
        if sign and name in letters and not is_value:
            apart += [name, value]
            continue
        apart.append(word)
        is_value = word in names and not is_value
    return apart


def _with_two_dashes(word: str) -> str:
    name = word.partition("=")[0]
    return name if name.startswith("--") or len(name) == 2 else f"-{name}"


def _with_one_dash(names: list[str]) -> list[str]:
    return [*names, *(name[1:] for name in names if name.startswith("--"))]


def _format_flags(params: list[click.Parameter], ctx: click.Context, formatter: click.HelpFormatter) -> None:
    sections: dict[str, list[tuple[str, str]]] = {}
    for param in params:
        if isinstance(param, click.Option) and (record := param.get_help_record(ctx)) is not None:
            sections.setdefault(getattr(param, "section", ""), []).append(record)
    for section, records in sorted(sections.items()):
        with formatter.section(section or "Flags"):
            formatter.write_dl(records)


def _commands_of(ctx: click.Context) -> str:
    assert isinstance(ctx.command, click.Group)
    *others, last = ctx.command.list_commands(ctx)
    return f"{', '.join(others)}, or {last}" if others else last


def _nearest(word: str, possibilities: list[str] | None) -> str:
    """Return the nearest name; to Click, dashes make any two flags similar."""
    names = {name.lstrip("-"): name for name in possibilities or () if name.startswith("--") or name[:1] != "-"}
    nearest = difflib.get_close_matches(word.lstrip("-"), names, n=1)
    return f"; did you mean {names[nearest[0]]}?" if nearest else ""


def _kind(param: click.Parameter) -> str:
    if isinstance(param, click.Option):
        return f"flag {max(param.opts, key=len)}"
    return f"argument {param.human_readable_name.strip('[]…')}"


def _sentence(text: str) -> str:
    """Return a text of Click as a part of a line: without a capital at the start and a period at the end."""
    line = escape(" ".join(text.split()).rstrip("."))
    return line[:1].lower() + line[1:]
