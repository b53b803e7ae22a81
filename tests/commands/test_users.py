"""Commands on a broker with users, over TLS: tokens, passwords, certificates, and the role that is missing."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.acceptance.process import FREE_PORTS, BrokerProcess
from tests.acceptance.users import PASSWORD, UsersFile
from tests.commands.support import CommandLine

pytestmark = pytest.mark.acceptance


class Secured(NamedTuple):
    """A broker with users whose RESP port has TLS, and their files."""

    url: str
    ca_file: str
    users: UsersFile
    directory: Path


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("secured")
    users = UsersFile(directory)
    users.add("shop", "-publisher", "orders")
    users.add("ops", "-admin", "*")
    users.add_with_password("ann", "-subscriber", "orders", "-monitor", "orders")
    flags = [*FREE_PORTS, "-storage", "memory", "-resp-tls", "-users", str(users.path)]
    process = BrokerProcess(flags, cwd=directory)
    try:
        process.wait_until_ready()
        url = f"rediss://localhost:{process.resp_port}"
        yield Secured(url, str(directory / "certs/ca.pem"), users, directory)
        process.stop()
    finally:
        process.end()


@pytest.fixture
def line(secured: Secured, without_url: CommandLine) -> CommandLine:
    """The command line of a person with a context for each user that has a token."""
    for name in ("shop", "ops"):
        files = ["--token-file", secured.users.token_file(name), "--ca-file", secured.ca_file]
        without_url.out("context", "add", name, "--url", secured.url, *files)
    return without_url


def test_a_context_has_all_that_a_broker_with_users_requires(line):
    assert line.out("pub", "orders", "hello", "--context", "shop", "-q") == ""
    assert line.out("sub", "orders", "--context", "ops", "--until-empty") == "hello\n"


@pytest.mark.parametrize(
    ("words", "role"),
    [
        (["peek", "orders"], "monitor on orders"),
        (["sub", "orders", "--count", "1"], "subscriber on orders"),
        (["pub", "parcels", "x"], "publisher on parcels"),
        (["topic", "set", "orders", "partitions=2"], "admin on orders"),
        (["group", "seek", "orders", "default", "--to", "latest", "--yes"], "admin on orders"),
        (["schedule", "ls"], "monitor on *"),
    ],
)
def test_the_role_that_is_missing_is_named(line, words, role):
    code, shown = line.refused(*words, "--context", "shop")
    assert (code, shown[:26]) == (69, "the broker refused: NOPERM")
    assert shown.endswith(f"; it requires the role {role}")


def test_a_line_that_may_not_be_published_names_the_role(line):
    ended = line("pub", "parcels", "--lines", "--context", "shop", stdin=b"one\ntwo\n")
    assert ended.err.startswith("miniqueue: line 1: the broker refused: NOPERM")
    assert "; it requires the role publisher on parcels; 0 lines published" in ended.err


def test_a_password_is_read_from_a_file(line, secured, tmp_path):
    file = tmp_path / "password"
    file.write_text(PASSWORD + "\nthe rest is a comment\n")
    words = ["--url", secured.url, "--ca-file", secured.ca_file, "--user", "ann", "--password-file", str(file)]
    assert line("topics", *words).code == 0
    assert line("topics", "--context", "ops", *words[4:]).code == 0  # not with the token of the context


def test_the_user_of_flags_replaces_the_one_of_a_url(line, secured, tmp_path):
    file = tmp_path / "password"
    file.write_text(PASSWORD)
    url = secured.url.replace("//", "//ops:a%20wrong%20secret@")
    words = ["--ca-file", secured.ca_file, "--user", "ann", "--password-file", str(file)]
    assert line("ping", "--url", url, *words).code == 0
    line.out("context", "add", "wrong", "--url", url)
    assert line("ping", "--context", "wrong", *words).code == 0
    refused = line("ping", "--url", url, "--ca-file", secured.ca_file, "--user", "ann")
    assert refused.err == "miniqueue: the user 'ann' has no secret; use --password-file or --token-file\n"


def test_a_url_can_contain_a_user_and_a_secret(line, secured):
    words = ["--ca-file", secured.ca_file]
    password = PASSWORD.replace(" ", "%20")
    for user, flags in (("ann", []), ("ann", ["--user", "ann"]), ("", ["--user", "ann"])):
        url = secured.url.replace("//", f"//{user}:{password}@")
        assert line("ping", "--url", url, *words, *flags).code == 0


def test_a_url_that_is_invalid_is_refused_whichever_user_is_named(line):
    code, shown = line.refused("ping", "--url", "redis://[", "--user", "ann")
    assert (code, shown[:18]) == (78, "invalid broker URL")


def test_a_password_is_asked_for_on_a_terminal_and_not_shown(line, secured):
    words = ["--url", secured.url, "--ca-file", secured.ca_file, "--user", "ann"]
    typed = PASSWORD.encode() + b"\n"
    shown = line.on_a_terminal("ping", *words, typed=typed, prompt=b"Password of 'ann': ")
    first, second = shown.out.splitlines()
    assert (shown.code, first) == (0, "Password of 'ann': ")
    assert second.startswith(f"{secured.url} replied in ")


def test_a_wrong_secret_is_refused_and_not_shown(line, secured, tmp_path):
    file = tmp_path / "token"
    file.write_text("a wrong token\n")
    code, shown = line.refused("ping", "--context", "ops", "--token-file", str(file))
    assert code == 69
    assert "WRONGPASS" in shown
    assert "a wrong token" not in shown


def test_a_broker_that_wants_a_secret_says_so(line, secured):
    code, shown = line.refused("topics", "--url", secured.url, "--ca-file", secured.ca_file)
    assert code == 69
    assert shown == (
        "the broker refused: NOAUTH it has users; use --token-file, or --user and --password-file, or a context"
    )


def test_applying_names_the_role_that_is_missing(line):
    (line.home / "topics.toml").write_text("[topics.parcels]\npartitions = 2\n")
    code, shown = line.refused("apply", "-f", str(line.home / "topics.toml"), "--context", "shop")
    assert (code, shown[:26]) == (69, "the broker refused: NOPERM")
    assert shown.endswith("; it requires the role monitor on parcels")


def test_a_certificate_that_is_not_trusted_is_refused(line, secured):
    code, shown = line.refused("ping", "--url", secured.url)
    assert code == 69
    assert "certificate verify failed" in shown
    assert shown.endswith("; --ca-file names certificates to trust, such as certs/ca.pem of the broker")
    ended = line("pub", "orders", "--lines", "--url", secured.url, stdin=b"one\n")
    assert "--ca-file names certificates to trust" in ended.err


def test_a_url_without_tls_is_refused_with_what_it_must_begin_with(line, secured):
    code, shown = line.refused("ping", "--url", secured.url.replace("rediss://", "redis://"))
    assert code == 69
    assert shown.endswith("; if that port uses TLS, the URL must begin with rediss://")


def test_topics_without_a_role_have_no_statistics(line):
    line.out("topic", "create", "hidden", "--context", "ops")
    names = line.out("topics", "--names", "--context", "shop").split()
    assert "hidden" not in names
