"""A start that would let strangers in is refused."""

import pytest

from miniqueue.errors import ConfigError
from miniqueue.server.config import load
from miniqueue.server.exposure import check_directory, check_exposure, is_loopback


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_on_loopback_there_is_nothing_to_say(host):
    assert is_loopback(host)
    assert check_exposure(load([f"-host={host}"], {})) == ""


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "192.168.1.2", "::ffff:127.0.0.1", "myhost", "127.1", "localhost.evil"]
)
def test_elsewhere_is_refused_and_the_line_says_what_helps(host):
    assert not is_loopback(host)
    with pytest.raises(ConfigError) as caught:
        check_exposure(load([f"-host={host}"], {}))
    (line,) = caught.value.problems
    assert host in line
    assert "-insecure" in line


def test_with_users_every_address_will_do():
    assert check_exposure(load(["-host=0.0.0.0", "-users=users.toml", "-resp-tls"], {})) == ""


def test_secrets_in_the_clear_are_worth_a_warning():
    assert "-resp-tls" in check_exposure(load(["-host=0.0.0.0", "-users=users.toml"], {}))


def test_who_insists_is_warned():
    assert "everybody who reaches 0.0.0.0" in check_exposure(load(["-host=0.0.0.0", "-insecure"], {}))


@pytest.mark.parametrize(("mode", "is_open"), [(0o700, False), (0o750, True), (0o701, True), (0o2755, True)])
def test_a_store_that_others_may_enter_is_worth_a_warning(tmp_path, mode, is_open):
    tmp_path.chmod(mode)
    assert bool(check_directory(load([f"-db={tmp_path}"], {}))) is is_open


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o777, 0o1777, 0o2775])
def test_a_store_that_others_may_write_to_is_refused(tmp_path, mode):
    tmp_path.chmod(mode)
    with pytest.raises(ConfigError) as caught:
        check_directory(load([f"-db={tmp_path}"], {}))
    (line,) = caught.value.problems
    assert line.startswith(f"flag -db: others may write to {tmp_path} (mode {mode:o}); chmod 700")


def test_who_insists_may_have_such_a_store_and_is_warned(tmp_path):
    tmp_path.chmod(0o777)
    assert "others may write to" in check_directory(load([f"-db={tmp_path}", "-insecure"], {}))


def test_a_store_in_memory_is_in_no_directory(tmp_path):
    tmp_path.chmod(0o777)
    assert check_directory(load([f"-db={tmp_path}", "-storage=memory"], {})) == ""


def test_a_store_that_is_still_to_be_made_is_not(tmp_path):
    assert check_directory(load([f"-db={tmp_path}/data"], {})) == ""
