"""Completion of words of the command line, for the shells that Click knows.

    the script of the shell ─▶ _MINIQUEUE_COMPLETE=bash_complete miniqueue ─▶ lines that the script understands

Whatever fails, such as a broker that is down, completes nothing and says nothing.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

PROGRAM: Final = "miniqueue"
#: The variable by which the script of a shell asks for completions.
VARIABLE: Final = "_MINIQUEUE_COMPLETE"
SHELLS: Final[Mapping[str, type[ShellComplete]]] = MappingProxyType(
    {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}
)


def script_for(shell: str) -> str:
    """Return the script for one of `SHELLS`."""
    kind = SHELLS[shell]
    completion = kind(click.Command(PROGRAM), {}, PROGRAM, VARIABLE)
    # Not `source`, which starts a shell to learn its version.
    return kind.source_template % completion.source_vars() + "\n"


def completions(root: click.Command, instruction: str, obj: object) -> str:
    """Return what the script of a shell asks for by an instruction such as `bash_complete`; "" for any other.

    Args:
      root: the command whose words are completed.
      instruction: the value of `VARIABLE`.
      obj: the object of the context of Click.
    """
    name, _, act = instruction.partition("_")
    if name not in SHELLS or act != "complete":
        return ""
    return SHELLS[name](root, {"obj": obj}, PROGRAM, VARIABLE).complete() + "\n"
