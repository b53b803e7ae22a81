"""A start that would let strangers in is refused."""

import pytest

from miniqueue.errors import ConfigError
from miniqueue.server.config import load
from miniqueue.server.exposure import check_exposure, is_loopback, open_to_others


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


@pytest.mark.parametrize(("mode", "is_open"), [(0o700, False), (0o750, True), (0o701, True), (0o777, True)])
def test_a_store_that_others_may_enter_is_worth_a_warning(tmp_path, mode, is_open):
    tmp_path.chmod(mode)
    assert bool(open_to_others(tmp_path)) is is_open


def test_a_store_that_is_still_to_be_made_is_not(tmp_path):
    assert open_to_others(tmp_path / "data") == ""
