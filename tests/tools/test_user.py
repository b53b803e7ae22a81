"""`miniqueue user`: what it writes, what it prints, and what it never prints."""

import io
import stat

import pytest

from miniqueue.access.hashing import matches
from miniqueue.cli import main
from miniqueue.server.security.users_file import read_users

PASSWORD = "correct horse"


class Terminal(io.TextIOWrapper):
    """A standard input that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def file(tmp_path):
    return tmp_path / "users.toml"


@pytest.fixture
def user(file, monkeypatch, capfd):
    """Run the command; return its exit code and all that it has printed."""

    def run(*words, given=""):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given.encode())))
        code = main(["user", *words], {"MINIQUEUE_USERS": str(file)})
        printed = "".join(capfd.readouterr())
        assert PASSWORD not in printed
        return code, printed

    return run


def one(file, name):
    found = read_users(file).named(name)
    assert found is not None
    return found


def test_add_takes_a_password_and_roles(user, file):
    code, printed = user("add", "-publisher", "orders orders.*", "-admin=lab.*", "ada", given=PASSWORD + "\nmore\n")
    assert (code, printed) == (0, f"{file}: ada added; a running broker reads it within 30 s\n")
    ada = one(file, "ada")
    assert ada.roles == {"publisher": ("orders", "orders.*"), "admin": ("lab.*",)}
    assert ada.secret.startswith("$argon2id$")
    assert matches(ada.secret, PASSWORD.encode())


def test_a_token_goes_into_a_file_of_its_own(user, file, tmp_path):
    path = tmp_path / "token"
    code, printed = user("add", "-token-file", str(path), "robot")
    token = path.read_text().strip()
    assert code == 0
    assert token not in printed
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert matches(one(file, "robot").secret, token.encode())


def test_a_file_of_a_token_has_a_name(user, file):
    code, printed = user("add", "-token-file", "/", "robot")
    assert (code, "must end with a file name" in printed) == (78, True)
    assert not file.exists()


def test_who_has_a_certificate_needs_no_secret(user, file):
    assert user("add", "-certificate", "CN=ada", "ada")[0] == 0
    assert (one(file, "ada").certificate, one(file, "ada").secret) == ("CN=ada", "")


def test_passwd_changes_the_secret_and_nothing_else(user, file, tmp_path):
    user("add", "-publisher", "t", "-certificate", "CN=ada", "ada")
    assert user("passwd", "ada", given=PASSWORD + "\r\n")[0] == 0
    ada = one(file, "ada")
    assert matches(ada.secret, PASSWORD.encode())
    assert (ada.certificate, ada.roles) == ("CN=ada", {"publisher": ("t",)})
    user("passwd", "-token-file", str(tmp_path / "token"), "ada")
    assert one(file, "ada").secret.startswith("sha256:")


def test_remove_and_list(user, file, tmp_path):
    user("add", "-publisher", "a b*", "ada", given=PASSWORD)
    user("add", "-token-file", str(tmp_path / "token"), "robot")
    user("add", "-certificate", "CN=c", "-monitor", "*", "cert")
    listed = user("list")[1].splitlines()
    assert listed == [
        "ada: password; publisher a b*",
        "cert: certificate CN=c; monitor *",
        "robot: token; no role",
    ]
    assert user("remove", "cert")[0] == 0
    assert [one.name for one in read_users(file)] == ["ada", "robot"]


def test_quotas_are_set_shown_and_removed(user, file, tmp_path):
    user("add", "-publisher", "t", "ada", given=PASSWORD)
    before = one(file, "ada")
    assert user("quota", "ada") == (0, "ada: no quotas\n")
    code, printed = user(
        "quota", "-max-topics", "10", "-max-messages-per-second=5", "-max-memory-bytes", "1048576", "ada"
    )
    assert (code, printed) == (0, f"{file}: ada has other quotas; a running broker reads it within 30 s\n")
    assert user("quota", "ada")[1] == "ada: max_topics 10 max_messages_per_second 5 max_memory_bytes 1048576\n"
    assert user("quota", "-max-topics", "none", "-max-bytes", "7", "ada")[0] == 0
    assert user("list")[1] == (
        "ada: password; publisher t; max_bytes 7 max_messages_per_second 5 max_memory_bytes 1048576\n"
    )
    assert one(file, "ada") == before
    user("add", "-certificate", "CN=c", "bob")
    user("passwd", "-token-file", str(tmp_path / "token"), "ada")
    assert read_users(file).quotas["ada"].max_bytes == 7
    user("remove", "bob")
    assert read_users(file).quotas["ada"].max_bytes == 7


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (
            ("quota", "-max-topics", "0", "ada"),
            "flag -max-topics: invalid quota; must be a whole number from 1 to 10^15",
        ),
        (("quota", "-max-bytes", "1GiB", "ada"), "flag -max-bytes: invalid quota; must be a whole number from 1"),
        (("quota", "bob"), "user 'bob': does not exist"),
        (("quota",), "invalid arguments"),
        (("passwd", "-max-topics", "1", "ada"), "flag -max-topics: only for the action quota"),
    ],
)
def test_what_is_no_quota_is_78_and_changes_nothing(user, file, words, problem):
    user("add", "ada", given=PASSWORD)
    before = file.read_bytes()
    code, printed = user(*words)
    assert (code, problem in printed) == (78, True), printed
    assert file.read_bytes() == before


def test_a_terminal_is_asked_twice_and_shows_nothing(user, file, monkeypatch):
    answers = [PASSWORD, PASSWORD, PASSWORD, "another"]
    monkeypatch.setattr("getpass.getpass", lambda prompt: answers.pop(0))
    terminal = Terminal(io.BytesIO())

    def at_terminal(*words):
        monkeypatch.setattr("sys.stdin", terminal)
        return main(["user", *words], {"MINIQUEUE_USERS": str(file)})

    assert at_terminal("add", "ada") == 0
    assert matches(one(file, "ada").secret, PASSWORD.encode())
    assert at_terminal("add", "bob") == 78
    assert read_users(file).named("bob") is None


def test_a_terminal_is_asked_once_for_a_password_that_is_too_short(file, monkeypatch, capfd):
    answers = ["short"]
    monkeypatch.setattr("getpass.getpass", lambda prompt: answers.pop())
    monkeypatch.setattr("sys.stdin", Terminal(io.BytesIO()))
    assert main(["user", "add", "ada"], {"MINIQUEUE_USERS": str(file)}) == 78
    assert capfd.readouterr().err == "miniqueue: invalid password; must have 8 to 1024 bytes\n"
    assert answers == []


@pytest.mark.parametrize(
    ("words", "given", "problem"),
    [
        ((), "", "user: invalid arguments; must be add, passwd, remove, or quota and a name, or list"),
        (("add",), "", "user: invalid arguments"),
        (("add", "a", "b"), "", "user: invalid arguments"),
        (("list", "a"), "", "user: invalid arguments"),
        (("rename", "a"), "", "user: invalid arguments"),
        (("add", "a b"), PASSWORD, "user 'a b': a user's name is"),
        (("add", "-publisher", "a*b", "x"), PASSWORD, "flag -publisher: pattern 'a*b': invalid; must be"),
        (("add", "-token-file", "/dev/null/token", "x"), "", "flag -token-file: '/dev/null/token': Not a directory"),
        (("add", "known"), PASSWORD, "user 'known': exists already"),
        (("passwd", "x"), PASSWORD, "user 'x': does not exist"),
        (("remove", "x"), "", "user 'x': does not exist"),
        (("add", "x"), "short\n", "invalid password; must have 8 to 1024 bytes"),
        (("add", "x"), "", "invalid password; must have 8 to 1024 bytes"),
        (("add", "-password", PASSWORD, "x"), "", "flag '-password': this command has no such flag"),
    ],
)
def test_what_cannot_be_done_is_78_and_changes_nothing(user, file, words, given, problem):
    user("add", "-certificate", "CN=known", "known")
    before = file.read_bytes()
    code, printed = user(*words, given=given)
    assert code == 78
    assert printed.startswith(f"miniqueue: {problem}")
    assert file.read_bytes() == before


def test_the_file_must_be_named(capfd):
    assert main(["user", "list"], {}) == 78
    assert "-users is missing" in capfd.readouterr().err


def test_help_is_the_usage(capfd):
    assert main(["user", "-h"], {}) == 0
    assert capfd.readouterr().out.startswith("Usage: miniqueue user add")
