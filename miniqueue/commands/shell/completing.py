"""Completion of words of the command line, for the shells that Click knows.

    the script of the shell ─▶ _MINIQUEUE_COMPLETE=bash_complete miniqueue ─▶ lines that the script understands

The scripts for bash and fish are not Click's: bash splits a word at each `:` and `=`, and topics often contain colons;
Click's script for fish ends a description at its first comma. Whatever fails, such as a broker that is down, completes
nothing and says nothing.
"""

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    split_arg_string,
)

PROGRAM: Final = "miniqueue"
#: The variable by which the script of a shell asks for completions.
VARIABLE: Final = "_MINIQUEUE_COMPLETE"

#: Sends the line up to the cursor. bash replaces only what follows the last `:` or `=` of a word, so what is before it
#: is cut from the completions. After `<` and `>`, it completes files.
_BASH: Final = """\
%(complete_func)s() {
    local IFS=$'\\n' response completion kind value
    local line=${COMP_LINE:0:COMP_POINT}
    local word=${line##*[[:space:]]}
    local kept=${word%%"${word##*[:=]}"}
    case $3 in
        '<' | '>' | '>>') compopt -o default; return 0 ;;
    esac
    [[ $kept == *:* && $COMP_WORDBREAKS != *:* ]] && kept=
    [[ $kept == *=* && $COMP_WORDBREAKS != *=* ]] && kept=

    response=$(env COMP_WORDS="$line" %(complete_var)s=bash_complete "$1")
    for completion in $response; do
        IFS=',' read -r kind value <<< "$completion"
        case $kind in
            dir) COMPREPLY=(); compopt -o dirnames ;;
            file) COMPREPLY=(); compopt -o default ;;
            plain) COMPREPLY+=("${value#"$kept"}") ;;
        esac
    done
    return 0
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""

_FISH: Final = """\
function %(complete_func)s
    set -l response (env %(complete_var)s=fish_complete COMP_WORDS=(commandline -cp) \
COMP_CWORD=(commandline -t) %(prog_name)s)

    for completion in $response
        set -l parts (string split --max 1 "," -- $completion)

        switch $parts[1]
            case dir
                __fish_complete_directories $parts[2]
            case file
                __fish_complete_path $parts[2]
            case plain
                echo $parts[2]
        end
    end
end

complete --no-files --command %(prog_name)s --arguments "(%(complete_func)s)"
"""


class _Bash(BashComplete):
    """Completion of the last word of a line, which ends at the cursor."""

    source_template = _BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the last one, and the last one; "" after a space."""
        line = os.environ["COMP_WORDS"]
        _, *words = split_arg_string(line)
        return (words, "") if not words or line[-1:].isspace() else (words[:-1], words[-1])


class _WholeWords(ShellComplete):
    """Completion for shells that replace a whole word: that of a flag with its value begins with the flag."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
        """Return the completions of a word."""
        items = super().get_completions(args, incomplete)
        name, sign, _ = incomplete.partition("=")
        if name.startswith("-") and sign:
            for item in items:
                item.value = f"{name}={item.value}"
        return items


class _Zsh(_WholeWords, ZshComplete):
    """Completion for zsh."""


class _Fish(_WholeWords, FishComplete):
    """Completion for fish."""

    source_template = _FISH


SHELLS: Final[Mapping[str, type[ShellComplete]]] = MappingProxyType({"bash": _Bash, "zsh": _Zsh, "fish": _Fish})


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
