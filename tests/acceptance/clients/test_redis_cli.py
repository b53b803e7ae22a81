"""redis-cli, redis-benchmark and netcat against the RESP port."""

import re
import subprocess
from collections.abc import Callable

import pytest

from tests.acceptance.counts import counts
from tests.acceptance.process import BrokerProcess
from tests.acceptance.telnet import command
from tests.acceptance.tools import MAX_SECONDS, conversation, needs, run

pytestmark = [pytest.mark.acceptance, needs("redis-cli", "redis-benchmark", "nc")]

RedisCli = Callable[..., str]


@pytest.fixture
def redis_cli(broker: BrokerProcess) -> RedisCli:
    program = ["redis-cli", "-p", str(broker.resp_port)]
    return lambda *words, lines="": run([*program, *words], lines.encode()).decode()


@pytest.mark.parametrize("version", [(), ("-3",)], ids=["RESP2", "RESP3"])
def test_single_commands(redis_cli, topic, version):
    assert redis_cli(*version, "PING") == "PONG\n"
    assert redis_cli(*version, "PUBLISH", topic, "hello") == "OK\n"
    assert topic in redis_cli(*version, "TOPICS").splitlines()
    assert "redis_version:miniqueue" in redis_cli(*version, "INFO")
    assert redis_cli(*version, "ECHO", "two words") == "two words\n"
    assert redis_cli(*version, "SELECT", "0") == "OK\n"
    assert redis_cli(*version, "NOSUCH").startswith("ERR unknown command 'NOSUCH'")


def test_commands_come_from_standard_input(redis_cli, broker, topic):
    assert redis_cli(lines=f"PUBLISH {topic} 1\nPUBLISH {topic} 2\n") == "OK\nOK\n"
    assert counts(broker, topic)["ready"] == 2


def test_help_shows_the_syntax_that_command_docs_tell(redis_cli):
    told = re.sub(r"\x1b\[\d*m", "", redis_cli(lines="HELP RECEIVE\nHELP TOPIC CREATE\nPING\n"))
    assert "RECEIVE topic [GROUP g] [MEMBER m] [COUNT n] [WAIT seconds] [LEASE seconds] [AUTOACK]" in told
    assert "TOPIC CREATE topic [name value" in told
    assert "PONG" in told


def test_a_message_comes_from_standard_input(redis_cli, broker, topic):
    assert redis_cli("-x", "PUBLISH", topic, lines="a whole file\nof lines\n") == "OK\n"
    assert counts(broker, topic)["ready"] == 1


def test_subscribe_prints_the_first_message_and_returns_it_at_the_end(redis_cli, broker, topic):
    redis_cli("PUBLISH", topic, "hello")
    for _ in range(2):
        with conversation(["stdbuf", "-oL", "redis-cli", "-p", str(broker.resp_port), "SUBSCRIBE", topic]) as cli:
            assert cli.hear() == "hello"


def test_mass_insertion(redis_cli, broker, topic):
    commands = b"".join(command(f"PUBLISH {topic} message-{number}".encode()) for number in range(5000))
    assert "errors: 0, replies: 5000" in redis_cli("--pipe", lines=commands.decode())
    assert counts(broker, topic)["ready"] == 5000


def test_mass_insertion_with_commands_that_do_not_exist_ends_with_their_number(broker, topic):
    commands = [f"PUBLISH {topic} x", "MONITOR", "DEBUG SLEEP 9", "EVAL return 0", "NOSUCH", f"PUBLISH {topic} y"]
    given = b"".join(command(line.encode()) for line in commands)
    port = str(broker.resp_port)
    program = ["redis-cli", "-p", port, "--pipe"]
    ended = subprocess.run(program, input=given, capture_output=True, timeout=MAX_SECONDS, check=False)
    assert b"errors: 4, replies: 6" in ended.stdout
    assert ended.returncode == 1
    assert counts(broker, topic)["ready"] == 2


@pytest.mark.parametrize("name", ["MONITOR", "DEBUG", "EVAL", "SHUTDOWN", "SLAVEOF", "KEYS", "FLUSHALL", "MODULE"])
def test_commands_of_redis_that_are_not_ours_are_plain_errors(redis_cli, name):
    assert redis_cli(name, "x", "0").startswith(f"ERR unknown command '{name}'\n")
    assert redis_cli("PING") == "PONG\n"


@pytest.mark.parametrize("depth", ["1", "32"])
def test_redis_benchmark_counts_what_is_published(broker, topic, depth):
    options = ["-p", str(broker.resp_port), "-n", "5000", "-c", "8", "-P", depth, "--csv"]
    assert "PUBLISH" in run(["redis-benchmark", *options, "PUBLISH", topic, "0123456789"]).decode()
    assert 5000 <= counts(broker, topic)["published"] <= 5000 + 32 * 8, "it overshoots by what is in its pipes"


def test_netcat_publishes(broker, topic):
    """What is sent before the end of the input is answered after it."""
    commands = command(f"PUBLISH {topic} hello".encode()) * 2 + b"QUIT\r\n"
    assert run(["nc", "127.0.0.1", str(broker.resp_port)], commands) == b"+OK\r\n" * 3
    assert counts(broker, topic)["ready"] == 2


def test_netcat_consumes(redis_cli, broker, topic):
    redis_cli(lines=f"PUBLISH {topic} 1\nPUBLISH {topic} 2\n")
    with conversation(["nc", "127.0.0.1", str(broker.resp_port)]) as nc:
        heard = []
        for line, replies in ((f"SUBSCRIBE {topic}", 2), ("NACK", 3), ("ACK", 3), ("DACK 0", 3), ("ACK", 1)):
            nc.say(command(line.encode()).decode())
            heard += [nc.hear() for _ in range(replies)]
    assert heard == ["$1", "1", "+OK", "$1", "1", "+OK", "$1", "2", "+OK", "$1", "2", "+OK"]
