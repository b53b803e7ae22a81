"""What a terminal shows when the broker is ready."""

from pathlib import Path

import pytest

from miniqueue.server.config.config import load
from miniqueue.server.greeting import Ports, greeting, is_greeted, program_of

PORTS = Ports(8080, 6379, 8081)


def rows(*flags, ports=PORTS, environ=None):
    """Return the rows of the greeting, by name."""
    lines = greeting(load(flags, environ or {}), ports).splitlines()
    pairs = [line.split(maxsplit=1) for line in lines if line.startswith("  ")]
    return dict(pairs)


def test_a_first_start():
    assert greeting(load([], {}), PORTS).splitlines()[3:] == [
        "  store       data; a publish is confirmed when it is on disk",
        "  http        https://localhost:8080; clients trust certs/ca.pem",
        "  resp        redis://localhost:6379",
        "  monitoring  http://localhost:8081/ui/",
        "  security    no users: clients need no password; only this machine can connect",
        "  try         miniqueue pub hello 'Dear Ada'",
        "",
    ]


def test_the_next_command_works_on_other_ports_and_with_users():
    assert rows(ports=Ports(1, 2, 3))["try"] == "miniqueue pub hello 'Dear Ada' --url redis://localhost:2"
    assert rows(environ={"MINIQUEUE_PASSWORD": "secret"})["try"] == "miniqueue pub hello 'Dear Ada' --user default"
    assert rows("-users", "users.toml")["try"] == "miniqueue pub hello 'Dear Ada' --token-file file"
    assert rows("-resp-tls")["try"] == (
        "miniqueue pub hello 'Dear Ada' --url rediss://localhost:6379 --ca-file certs/ca.pem"
    )


@pytest.mark.parametrize(
    ("started_as", "is_on_path", "program"),
    [
        (".venv/bin/miniqueue", False, ".venv/bin/miniqueue"),
        ("/opt/my tools/miniqueue", False, "'/opt/my tools/miniqueue'"),
        (".venv/bin/miniqueue", True, "miniqueue"),
        ("/opt/miniqueue/__main__.py", False, "miniqueue"),
    ],
)
def test_the_next_command_is_found_by_the_shell_after_make_run(started_as, is_on_path, program):
    assert program_of(started_as, is_on_path=is_on_path) == program
    lines = greeting(load([], {}), PORTS, program).splitlines()
    assert f"  try         {program} pub hello 'Dear Ada'" in lines


def test_ports_of_shards_are_shown():
    flags = ("-shards", "3", "-shard-ports", "7000")
    assert rows(*flags, ports=PORTS._replace(shards=(7000, 7001, 7002)))["resp"] == (
        "redis://localhost:6379; shards have ports 7000 to 7002"
    )


def test_what_is_at_risk_is_said():
    assert rows("-storage", "memory")["store"] == "memory; messages are lost when the broker stops"
    assert rows("-sync", "never")["store"] == "data; a power failure loses what the system has not written yet"
    exposed = rows("-host", "0.0.0.0", "-insecure")
    assert exposed["security"] == "no users: clients need no password; other machines, too, can connect"
    assert exposed["http"].startswith("https://localhost:8080;")
    assert rows("-users", "u\x1b.toml")["security"].startswith("users of u\\x1b.toml;")


def test_addresses_are_those_that_this_machine_can_use():
    assert rows("-host", "::1")["resp"] == "redis://localhost:6379"
    assert rows("-host", "fd00::1", "-insecure")["resp"] == "redis://[fd00::1]:6379"
    assert rows("-dashboard=false")["monitoring"] == "http://localhost:8081/metrics"
    exposed = rows("-monitor-host", "10.0.0.7", "-insecure", "-cert", "c.pem", "-key", "k.pem")
    assert exposed["monitoring"] == "https://10.0.0.7:8081/metrics"
    assert exposed["http"].endswith("; clients trust the authority of c.pem")


@pytest.mark.parametrize(
    ("flags", "is_terminal", "greets"),
    [
        ([], True, True),
        (["-human"], True, True),
        ([], False, False),
        (["-human"], False, False),
        (["-human=false"], True, False),
        (["-level", "warning"], True, False),
        (["-level", "disabled"], True, False),
    ],
)
def test_only_a_person_is_greeted(flags, is_terminal, greets):
    assert is_greeted(load(flags, {}), is_terminal) is greets


def test_paths_are_those_of_the_settings(tmp_path: Path):
    assert rows("-db", str(tmp_path))["store"].startswith(f"{tmp_path}; ")
