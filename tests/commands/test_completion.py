"""Completion of words: what the scripts of the shells ask for, and what each shell makes of it on a terminal."""

import re
import shlex
import subprocess

import pytest

from tests.acceptance.process import COMMAND
from tests.acceptance.tools import needs
from tests.commands.support import on_a_terminal

pytestmark = pytest.mark.acceptance

#: A key that prints the line that was typed, and empties it.
SHOW = "\x14"
#: What a shell reads when it starts; the prompt is the same for both.
STARTED = {
    "bash": r"""
        source <(miniqueue completion bash)
        bind -x '"\C-t": echo "<$READLINE_LINE>"; READLINE_LINE='
        PS1='ready> '
    """,
    "zsh": r"""
        autoload -Uz compinit && compinit -u -D
        source <(miniqueue completion zsh)
        show() { print -r -- "<$BUFFER>"; BUFFER= }
        zle -N show
        bindkey '^T' show
        unset zle_bracketed_paste  # it would follow the prompt
        PROMPT='ready> '
    """,
}
COMMANDS = {"bash": ["bash", "--rcfile", ".bashrc", "-i"], "zsh": ["zsh", "-d", "-i"]}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_has_a_script_for_completion(without_url, shell):
    assert f"_MINIQUEUE_COMPLETE={shell}_complete" in without_url.out("completion", shell)


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("miniqueue pin", ["ping"]),
        ("miniqueue che", ["check"]),
        ("miniqueue --monitor-p", []),
        ("miniqueue -resp-p", ["-resp-port"]),
        ("miniqueue topics --na", ["--names"]),
        ("miniqueue topics -o js", ["json", "jsonl"]),
        ("miniqueue topics --output=js", ["json", "jsonl"]),
        ("miniqueue context sh", ["show"]),
        ("miniqueue completion z", ["zsh"]),
        ("miniqueue zzz", []),
    ],
)
def test_words_are_completed(miniqueue, typed, completed):
    miniqueue.variables |= {"_MINIQUEUE_COMPLETE": "bash_complete"}
    ended = miniqueue.in_a_pipe(COMP_WORDS=typed)
    assert [line.partition(",")[2] for line in ended.out.split()] == completed
    assert (ended.code, ended.err) == (0, "")


@pytest.mark.parametrize(
    "typed", ["miniqueue sub orders -- ./han", "miniqueue check -db da", "miniqueue pub t --ca-file c"]
)
def test_a_program_a_directory_and_a_certificate_are_completed_as_files(miniqueue, typed):
    miniqueue.variables |= {"_MINIQUEUE_COMPLETE": "bash_complete"}
    word = typed.rpartition(" ")[2]
    assert miniqueue.in_a_pipe(COMP_WORDS=typed).out == f"file,{word}\n"


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("ping", "plain,ping\tcheck that a broker replies, and how fast\n"),
        ("topics --output=jsonl", "plain,--output=jsonl\n"),
    ],
)
def test_fish_gets_whole_words_with_a_summary(miniqueue, typed, completed):
    miniqueue.variables |= {"_MINIQUEUE_COMPLETE": "fish_complete"}
    word = typed.rpartition(" ")[2]
    assert miniqueue.in_a_pipe(COMP_WORDS=f"miniqueue {typed}", COMP_CWORD=word).out == completed


@needs("bash")
@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("miniqueue pin", ["ping"]),
        ("miniqueue peek eu:", ["orders", "parcels"]),
        ("miniqueue peek eu:o", ["orders"]),
        ("miniqueue peek e", ["eu:orders", "eu:parcels"]),
        ("miniqueue topics --output=js", ["json", "jsonl"]),
        ("miniqueue pub eu:orders < f", []),
    ],
)
def test_bash_completes_what_follows_a_colon(miniqueue, client, typed, completed):
    client.create_topic("eu:orders")
    client.create_topic("eu:parcels")
    program = f"""
        miniqueue() {{ {shlex.join(COMMAND)} "$@"; }}
        env() {{ (while [[ $1 == *=* ]]; do export "$1"; shift; done; "$@"); }}  # which runs functions too
        compopt() {{ :; }}
        {miniqueue.out("completion", "bash")}
        COMP_LINE='{typed}' COMP_POINT={len(typed)}
        words=($COMP_LINE)
        _miniqueue_completion miniqueue "${{words[-1]}}" "${{words[-2]}}"
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(
        ["bash", "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env=miniqueue.environ({}),
        cwd=miniqueue.home,
    )
    assert (done.stdout.split(), done.stderr) == (completed, "")


def test_no_topic_that_a_shell_would_execute_is_completed(miniqueue, client):
    for topic in ("$(reboot)", "`reboot`", "a;b", "a|b", "a&b", "a>b", "*", "a\\b", "'", "~a", "-a", "orders.é-1:x"):
        client.create_topic(topic)
    miniqueue.variables |= {"_MINIQUEUE_COMPLETE": "bash_complete"}
    assert miniqueue.in_a_pipe(COMP_WORDS="miniqueue pub ").out == "plain,orders.é-1:x\n"


@pytest.fixture
def with_program(miniqueue, client):
    """A command line whose shells find a program `miniqueue`; the broker has two topics."""
    client.create_topic("eu:orders")
    client.create_topic("eu:parcels")
    program = miniqueue.home / "bin" / "miniqueue"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.join(COMMAND)} "$@"\n')
    program.chmod(0o755)
    variables = miniqueue.environ({})
    miniqueue.variables |= {"PATH": f"{program.parent}:{variables['PATH']}", "ZDOTDIR": str(miniqueue.home)}
    return miniqueue


@needs("bash", "zsh")
@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_shell_completes_on_a_terminal(with_program, shell):
    (with_program.home / f".{shell}rc").write_text(STARTED[shell])
    words = ["miniqueue pin", "miniqueue topics --output=ta", "miniqueue peek eu:o"]
    typed = "".join(f"{line}\t{SHOW}" for line in words) + "exit\r"
    environ = with_program.environ({"TERM": "dumb"})
    ended = on_a_terminal(COMMANDS[shell], environ, with_program.home, typed.encode(), b"ready> ")
    completed = [line.replace("\\", "").rstrip() for line in re.findall("<(.*?)>", ended.out)]
    assert completed == ["miniqueue ping", "miniqueue topics --output=table", "miniqueue peek eu:orders"], ended.out


@needs("fish")
def test_fish_completes(with_program):
    lines = ["miniqueue pin", "miniqueue topics --output=ta", "miniqueue peek eu:o"]
    asked = "; ".join(f'complete -C "{line}"' for line in lines)
    done = subprocess.run(
        ["fish", "--no-config", "-c", f"source (miniqueue completion fish | psub); {asked}"],
        capture_output=True,
        text=True,
        check=True,
        env=with_program.environ({}),
        cwd=with_program.home,
    )
    completed = [line.partition("\t")[0] for line in done.stdout.splitlines()]
    assert (completed, done.stderr) == (["ping", "--output=table", "eu:orders"], "")
