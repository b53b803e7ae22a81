"""The users file: what a broker makes of it, and how it is written."""

import os
import stat

import pytest

from miniqueue.access.users import User, Users
from miniqueue.errors import ConfigError
from miniqueue.server.security.file_access import Account
from miniqueue.server.security.users_file import change_users, read_users


def problems_of(path):
    with pytest.raises(ConfigError) as caught:
        read_users(path)
    return caught.value.problems


def private(path, content):
    path.write_bytes(content)
    path.chmod(0o600)
    return path


def test_what_was_written_is_read(tmp_path):
    path = tmp_path / "new" / "users.toml"
    change_users(path, lambda users: Users([*users, User("ada", roles={"admin": ("*",)})]))
    change_users(path, lambda users: Users([*users, User("bob")]))
    assert [user.name for user in read_users(path)] == ["ada", "bob"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_change_that_fails_leaves_the_file_as_it_was(tmp_path):
    path = private(tmp_path / "users.toml", b"[user.ada]\n")

    def fail(users):
        raise ConfigError(["no"])

    with pytest.raises(ConfigError):
        change_users(path, fail)
    assert path.read_bytes() == b"[user.ada]\n"
    assert os.listdir(tmp_path) == ["users.toml"]


def test_a_file_with_mistakes_is_not_written_over(tmp_path):
    path = private(tmp_path / "users.toml", b"[user.ada")
    with pytest.raises(ConfigError):
        change_users(path, lambda users: users)
    assert path.read_bytes() == b"[user.ada"


def test_a_missing_file_is_named_with_what_makes_it(tmp_path):
    (line,) = problems_of(tmp_path / "no.toml")
    assert line.startswith("flag -users: users file ")
    assert line.endswith("no.toml: it is missing; create it with `miniqueue user add`")


@pytest.mark.parametrize("mode", [0o620, 0o664])
def test_write_access_of_a_group_of_this_process_is_withdrawn_and_reported(tmp_path, mode):
    path = private(tmp_path / "users.toml", b"[user.ada]\n")
    path.chmod(mode)
    reports = []
    assert [user.name for user in read_users(path, reports.append)] == ["ada"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    (report,) = reports
    assert report.startswith(f"{path}: its group could write to it")


def test_a_file_of_another_user_that_a_group_of_this_process_may_write_is_refused(tmp_path):
    path = private(tmp_path / "users.toml", b"[user.ada]\n")
    path.chmod(0o660)
    uid, account = os.geteuid(), Account(os.geteuid() + 1, Account.current().gids)
    with pytest.raises(ConfigError) as caught:
        read_users(path, pytest.fail, account)
    assert caught.value.problems == [
        f"flag -users: users file {path}: it is writable by group {path.stat().st_gid} (mode 660), "
        f"and it belongs to uid {uid}; run chmod g-w or chown {account.uid}"
    ]
    assert stat.S_IMODE(path.stat().st_mode) == 0o660


@pytest.mark.parametrize("mode", [0o440, 0o640, 0o644])
def test_a_file_of_another_user_is_accepted_as_kubernetes_mounts_a_secret(tmp_path, mode):
    path = private(tmp_path / "users.toml", b"[user.ada]\n")
    path.chmod(mode)
    account = Account(os.geteuid() + 1, Account.current().gids)
    assert [user.name for user in read_users(path, pytest.fail, account)] == ["ada"]
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_an_own_file_on_a_file_system_that_ignores_modes_is_accepted_and_reported(tmp_path, monkeypatch):
    path = private(tmp_path / "users.toml", b"[user.ada]\n")
    path.chmod(0o660)
    monkeypatch.setattr(os, "fchmod", lambda *_: None)
    reports = []
    read_users(path, reports.append)
    (report,) = reports
    assert report.startswith(f"others in group {path.stat().st_gid} can write to {path} (mode 660)")


def test_a_file_that_another_group_may_write_is_refused(tmp_path):
    path = private(tmp_path / "users.toml", b"")
    path.chmod(0o620)
    with pytest.raises(ConfigError, match="it is writable by other users; run chmod 600"):
        read_users(path, account=Account(os.geteuid(), frozenset()))


@pytest.mark.parametrize("mode", [0o602, 0o666])
def test_a_file_that_others_may_write_is_refused(tmp_path, mode):
    path = private(tmp_path / "users.toml", b"")
    path.chmod(mode)
    assert problems_of(path) == [f"flag -users: users file {path}: it is writable by other users; run chmod 600"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"\xff", "it is not UTF-8"),
        (b"[user.ada]\nsecret=hunter2", "no TOML (at line 2, column 8)"),
        (b"x=1", "key 'x': unknown; must be tables [user.name]"),
    ],
)
def test_every_problem_has_the_name_of_the_file(tmp_path, content, problem):
    path = private(tmp_path / "users.toml", content)
    assert problems_of(path) == [f"flag -users: users file {path}: {problem}"]


def test_a_directory_is_no_file(tmp_path):
    assert problems_of(tmp_path) == [f"flag -users: users file {tmp_path}: Is a directory"]
