"""What all commands have in common: flags, suggestions, help, and what a broker's start imports."""

import subprocess
import sys

import pytest

from miniqueue.commands import COMMANDS
from miniqueue.tools import TOOLS
from tests.acceptance.process import COMMAND, ROOT, environment

pytestmark = pytest.mark.acceptance

BAD_WORDS = [
    (["pingg"], 78, "argument 'pingg': no such command; did you mean ping?; see -h"),
    (["chek"], 78, "argument 'chek': no such command; did you mean check?; see -h"),
    (["topics", "--nmaes"], 78, "flag '--nmaes': no such flag; did you mean --names?; see -h"),
    (["topics", "-nmaes"], 78, "flag '--nmaes': no such flag; did you mean --names?; see -h"),
    (["topics", "--zzz"], 78, "flag '--zzz': no such flag; see -h"),
    (["topics", "a", "b"], 78, "got unexpected extra argument (b); see -h"),
    (["topics", "-o"], 78, "flag -o: missing value; see -h"),
    (["topics", "-o", "xml"], 78, "flag --output: invalid value: 'xml'; must be table, json or jsonl"),
    (["ping", "--count", "x"], 78, "flag --count: invalid number: 'x'; must be 1 or more"),
    (["ping", "--count", "0"], 78, "flag --count: invalid number: '0'; must be 1 or more"),
    (
        ["ping", "--timeout", "soon"],
        78,
        "flag --timeout: invalid duration: 'soon'; must be a number of seconds, or a duration such as 1h30m, "
        "more than 0",
    ),
    (
        ["ping", "--url", "http://x"],
        78,
        "invalid broker URL: http://x; must be redis://host:port or rediss://host:port",
    ),
    (["ping", "--url", "queue:6379"], 78, "invalid broker URL; must begin with redis:// or rediss://"),
    (["ping", "--token-file", "none"], 78, "flag --token-file: no secret can be read from 'none'"),
    (["ping", "--ca-file", "none"], 78, "a certificate requires TLS; the URL must begin with rediss://"),
    (["ping", "--user", "ada"], 78, "the user 'ada' has no secret; use --password-file or --token-file"),
    (["ping", "--context", "x"], 78, "no such context: 'x'; there are: none; see miniqueue context add -h"),
    (["ping", "\x1b[2J"], 78, "got unexpected extra argument (\\x1b[2J); see -h"),
    (["context"], 78, "miniqueue context: missing command; must be add, list, remove, show, or use; see -h"),
    (["context", "shwo"], 78, "argument 'shwo': no such command; did you mean show?; see -h"),
    (["context", "add"], 78, "missing argument NAME; see -h"),
    (["completion", "csh"], 78, "argument SHELL: invalid value: 'csh'; must be bash, zsh or fish"),
]


@pytest.mark.parametrize(("words", "code", "line"), BAD_WORDS, ids=lambda value: str(value)[:40])
def test_what_is_wrong_is_said_in_one_line(miniqueue, words, code, line):
    assert miniqueue.refused(*words) == (code, line)


def test_a_broker_that_is_down_is_one_line(without_url):
    code, line = without_url.refused("topics", "--url", "redis://localhost:1")
    assert (code, line) == (69, "cannot connect to redis://localhost:1: Connection refused")


@pytest.mark.parametrize("dash", ["-", "--"])
def test_a_flag_has_one_dash_or_two(miniqueue, client, dash):
    client.publish("orders", b"one")
    assert miniqueue.out("topics", f"{dash}names") == "orders\n"
    assert miniqueue.out("topics", f"{dash}names", f"{dash}output=jsonl") == '{"topic":"orders"}\n'


def test_the_value_of_a_letter_follows_a_space_or_a_sign_or_nothing(miniqueue, client):
    client.publish("orders", b"one")
    for words in (["-o", "jsonl"], ["-o=jsonl"], ["-ojsonl"]):
        assert miniqueue.out("topics", "--names", *words) == '{"topic":"orders"}\n'
    miniqueue.out("pub", "orders", "two", "--key", "-o=json", "-q")
    assert miniqueue.out("sub", "orders", "--count=1", "-o=text") == "one\n"
    assert miniqueue.out("sub", "orders", "--count", "1", "--", "echo", "-n=1") == ""
    assert client.length("orders") == 0


@pytest.mark.parametrize("name", sorted(COMMANDS))
@pytest.mark.parametrize("word", ["-h", "--help", "-help"])
def test_every_command_has_help(without_url, name, word):
    assert without_url.out(name, word).startswith(f"Usage: miniqueue {name} ")
    assert without_url.out("help", name) == without_url.out(name, "-h")


def test_a_command_of_a_command_has_help(without_url):
    assert without_url.out("help", "topic", "show").startswith("Usage: miniqueue topic show ")


def test_a_command_and_a_tool_have_different_names():
    assert not COMMANDS.keys() & TOOLS.keys()


def test_the_variables_of_commands_are_no_settings_of_a_broker(without_url):
    without_url.variables |= {"MINIQUEUE_CONTEXT": "prod", "MINIQUEUE_URL": "redis://queue"}
    assert without_url("-port").err == "miniqueue: flag -port: missing value; use -port port\n"


def test_a_broker_and_its_help_import_nothing_of_the_commands():
    program = """if True:
        import sys
        from miniqueue import cli
        import miniqueue.server.run
        cli.main(["-h"], {})
        cli.main(["check"], {})
        print(*sys.modules)
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    modules = set(done.stdout.splitlines()[-1].split())
    assert "miniqueue.commands" in modules
    assert not modules & {"click", "rich", "redis", "miniqueue.commands.program", "miniqueue_client.client"}


@pytest.mark.parametrize("words", [["-h"], ["-version"], ["completion", "bash"], ["context", "list"]])
def test_a_full_disk_is_said_in_one_line(words, miniqueue):
    with open("/dev/full", "wb") as full:
        ended = subprocess.run(
            [*COMMAND, *words], stdout=full, stderr=subprocess.PIPE, env=environment(**miniqueue.variables), check=False
        )
    assert ended.stderr == b"miniqueue: cannot write the output: No space left on device\n"
    assert ended.returncode == 71


def test_a_standard_output_that_a_shell_has_closed_is_said_in_one_line(miniqueue):
    ended = subprocess.run(
        ["sh", "-c", '"$@" >&-', "sh", *COMMAND, "context", "list"],
        stderr=subprocess.PIPE,
        env=environment(**miniqueue.variables),
        check=False,
    )
    assert ended.stderr == b"miniqueue: cannot write the output: standard output is closed\n"
    assert ended.returncode == 71
