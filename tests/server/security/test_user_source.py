"""The users of a broker: those of the file, or one with a password until there is a file."""

import pytest

from miniqueue.access.hashing import matches
from miniqueue.access.rights import Right
from miniqueue.access.users import User, Users
from miniqueue.errors import ConfigError
from miniqueue.server.config.config import load
from miniqueue.server.security.user_source import UserSource, password_of
from miniqueue.server.security.users_file import change_users

PASSWORD = "a long secret"
VARIABLE = {"MINIQUEUE_PASSWORD": PASSWORD}


def source(flags=(), environ=None, report=lambda _: None):
    return UserSource(load(flags, environ or {}), report)


def problems_of(users):
    with pytest.raises(ConfigError) as caught:
        users.read()
    assert PASSWORD not in str(caught.value.problems)
    return caught.value.problems


def private(path, text):
    path.touch(0o600)
    path.write_text(text)
    return path


def add_ada(path):
    change_users(path, lambda users: Users([*users, User("ada", roles={"admin": ("*",)})]))


def test_a_password_makes_one_user_who_may_do_everything():
    (user,) = source(environ=VARIABLE).read()
    assert user.name == "default"
    assert matches(user.secret, PASSWORD.encode())
    assert all(user.may(right) for right in Right)
    assert all(user.may(right, b"orders") for right in Right)


def test_the_user_stays_the_same_while_the_password_does(tmp_path):
    file = private(tmp_path / "password", PASSWORD)
    users = source([f"-password-file={file}"])
    (before,) = users.read()
    assert list(users.read()) == [before]
    file.write_text("another secret")
    (after,) = users.read()
    assert matches(after.secret, b"another secret")


@pytest.mark.parametrize("text", [PASSWORD, f"{PASSWORD}\n", f"{PASSWORD}\r\n", f"{PASSWORD}\nmore\n"])
def test_the_password_is_the_first_line_of_its_file(tmp_path, text):
    file = tmp_path / "password"
    file.write_bytes(text.encode())
    file.chmod(0o600)
    assert password_of(load([f"-password-file={file}"], {})) == PASSWORD


def test_a_password_need_not_be_utf_8():
    (user,) = source(environ={"MINIQUEUE_PASSWORD": "a long \udcff secret"}).read()
    assert matches(user.secret, b"a long \xff secret")


def test_the_users_file_takes_the_place_of_the_password_when_it_exists(tmp_path):
    file = tmp_path / "users.toml"
    users = source([f"-users={file}"], VARIABLE)
    assert [user.name for user in users.read()] == ["default"]
    assert not file.exists()
    add_ada(file)
    assert [user.name for user in users.read()] == ["ada"]


def test_a_users_file_that_cannot_be_read_is_not_a_missing_one(tmp_path):
    file = private(tmp_path / "file", "")
    (line,) = problems_of(source([f"-users={file}/users.toml"], VARIABLE))
    assert line.endswith("Not a directory")


def test_without_a_password_a_missing_users_file_is_a_problem(tmp_path):
    (line,) = problems_of(source([f"-users={tmp_path}/users.toml"]))
    assert "it is missing" in line


@pytest.mark.parametrize("password", ["1234567", "x" * 1025])
def test_a_password_of_another_length_is_refused(tmp_path, password):
    (line,) = problems_of(source(environ={"MINIQUEUE_PASSWORD": password}))
    assert line == "variable MINIQUEUE_PASSWORD: invalid password; must have 8 to 1024 bytes"
    file = private(tmp_path / "password", password)
    (line,) = problems_of(source([f"-password-file={file}"]))
    assert line == f"flag -password-file: {file}: invalid password; must have 8 to 1024 bytes"


def test_a_file_that_others_could_write_is_no_source_of_passwords(tmp_path):
    file = private(tmp_path / "password", PASSWORD)
    file.chmod(0o602)
    (line,) = problems_of(source([f"-password-file={file}"]))
    assert line == f"flag -password-file: {file}: it is writable by other users; run chmod 600"


def test_a_missing_file_is_named(tmp_path):
    (line,) = problems_of(source([f"-password-file={tmp_path}/no"]))
    assert line == f"flag -password-file: {tmp_path}/no: it is missing"


def test_a_change_of_a_file_is_seen_until_it_was_read(tmp_path):
    file, secret = tmp_path / "users.toml", private(tmp_path / "password", PASSWORD)
    users = source([f"-users={file}", f"-password-file={secret}"])
    users.read()
    assert not users.has_changed()
    add_ada(file)
    assert users.has_changed()
    users.read()
    assert not users.has_changed()
    file.write_text("[user.ada")
    assert users.has_changed()
    problems_of(users)
    assert not users.has_changed(), "the same mistake is reported once"


def test_a_link_that_kubernetes_changes_is_a_change(tmp_path):
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        add_ada(tmp_path / name / "users.toml")
    (tmp_path / "now").symlink_to("old")
    users = source([f"-users={tmp_path}/now/users.toml"])
    users.read()
    (tmp_path / "next").symlink_to("new")
    (tmp_path / "next").rename(tmp_path / "now")
    assert users.has_changed()
