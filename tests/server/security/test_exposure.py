"""A start that would let strangers in is refused."""

import os
import stat

import pytest

from miniqueue.errors import ConfigError
from miniqueue.server.config.config import load
from miniqueue.server.security.exposure import (
    check_directory,
    check_exposure,
    correct_modes,
    is_loopback,
    serves_dashboard,
)
from miniqueue.server.security.file_access import Account

CURRENT = Account.current()
WITHOUT_GROUPS = Account(CURRENT.uid, frozenset())
OTHER_UID = Account(CURRENT.uid + 1, CURRENT.gids)


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
    assert "set the variable MINIQUEUE_PASSWORD, or create users" in line
    assert "-insecure" in line


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.2", "myhost"])
def test_monitoring_elsewhere_is_refused_without_users(host):
    with pytest.raises(ConfigError) as caught:
        check_exposure(load([f"-monitor-host={host}"], {}))
    (line,) = caught.value.problems
    assert line.startswith(f"flag -monitor-host: {host} ")
    assert "every client could read all messages and metrics; use -monitor-host 127.0.0.1" in line


def test_each_flag_that_opens_a_port_is_a_problem():
    with pytest.raises(ConfigError) as caught:
        check_exposure(load(["-host=0.0.0.0", "-monitor-host=::"], {}))
    assert [line.split(":")[0] for line in caught.value.problems] == ["flag -host", "flag -monitor-host"]


def test_monitoring_elsewhere_with_users_is_encrypted_and_not_worth_a_warning():
    assert check_exposure(load(["-monitor-host=0.0.0.0", "-users=users.toml"], {})) == ""


@pytest.mark.parametrize(
    ("flags", "is_served"),
    [
        ([], True),
        (["-shards=2"], True),
        (["-dashboard"], True),
        (["-dashboard=false"], False),
        (["-monitor-host=0.0.0.0", "-users=users.toml"], False),
        (["-monitor-host=0.0.0.0", "-users=users.toml", "-dashboard"], True),
        (["-monitor-host=0.0.0.0", "-insecure"], False),
    ],
)
def test_the_dashboard_is_on_by_default_where_only_this_machine_can_reach_it(flags, is_served):
    config = load(flags, {})
    check_exposure(config)
    assert serves_dashboard(config) is is_served


@pytest.mark.parametrize("flags", [["-insecure"], []])
def test_the_dashboard_elsewhere_requires_users_whatever_else_is_accepted(flags):
    with pytest.raises(ConfigError) as caught:
        check_exposure(load(["-monitor-host=0.0.0.0", "-dashboard", *flags], {}))
    (line,) = caught.value.problems
    assert line.startswith("flag -dashboard: requires users, because 0.0.0.0 (-monitor-host) can be reached")


def test_insecure_monitoring_is_worth_a_warning():
    warning = check_exposure(load(["-monitor-host=0.0.0.0", "-insecure"], {}))
    assert warning == "every client that can reach 0.0.0.0 may read all messages and metrics (-insecure)"


def test_with_users_every_address_will_do():
    assert check_exposure(load(["-host=0.0.0.0", "-users=users.toml", "-resp-tls"], {})) == ""


def test_with_a_password_every_address_will_do():
    assert check_exposure(load(["-host=0.0.0.0", "-resp-tls"], {"MINIQUEUE_PASSWORD": "a long secret"})) == ""
    assert check_exposure(load(["-host=0.0.0.0", "-resp-tls", "-password-file=secret"], {})) == ""


def test_secrets_in_the_clear_are_worth_a_warning():
    assert "-resp-tls" in check_exposure(load(["-host=0.0.0.0", "-users=users.toml"], {}))


def test_who_insists_is_warned():
    assert "every client that can reach 0.0.0.0" in check_exposure(load(["-host=0.0.0.0", "-insecure"], {}))


@pytest.mark.parametrize(("mode", "is_open"), [(0o700, False), (0o750, True), (0o701, True), (0o2755, True)])
def test_a_store_that_others_may_enter_is_worth_a_warning(tmp_path, mode, is_open):
    tmp_path.chmod(mode)
    assert bool(check_directory(load([f"-db={tmp_path}"], {}))) is is_open


def config_of(directory, *flags):
    return load([f"-db={directory}", *flags], {})


def make_store(directory, mode):
    """Make a directory and a file in it, of a user that a mount with `fsGroup` gives `mode`."""
    (directory / "db").mkdir()
    (directory / "db" / "000001.log").touch()
    (directory / "db" / "000001.log").chmod(0o660)
    for path in (directory / "db", directory):
        path.chmod(mode)
    return directory


def modes(directory):
    return [stat.S_IMODE(path.stat().st_mode) for path in (directory, *sorted(directory.rglob("*")))]


def test_write_access_of_a_group_of_this_process_is_withdrawn_and_reported(tmp_path):
    store = make_store(tmp_path, 0o2775)
    assert f"{store}: its group could write to it" in correct_modes(config_of(store), is_store=True)
    assert modes(store) == [0o2700, 0o2700, 0o600]
    assert correct_modes(config_of(store), is_store=True) == ""
    assert check_directory(config_of(store)) == ""


def test_a_file_that_a_mount_has_changed_is_corrected_in_a_private_directory(tmp_path):
    store = make_store(tmp_path, 0o700)
    assert correct_modes(config_of(store), is_store=True)
    assert modes(store) == [0o700, 0o700, 0o600]


@pytest.mark.parametrize(
    ("mode", "flags", "is_store", "account"),
    [
        pytest.param(0o2775, [], True, OTHER_UID, id="of another user"),
        pytest.param(0o2775, [], True, WITHOUT_GROUPS, id="of another group"),
        pytest.param(0o2777, [], True, CURRENT, id="open to all"),
        pytest.param(0o2775, ["-insecure"], True, CURRENT, id="-insecure"),
        pytest.param(0o2775, [], False, CURRENT, id="no store"),
    ],
)
def test_other_modes_stay_as_they_are(tmp_path, mode, flags, is_store, account):
    store = make_store(tmp_path, mode)
    before = modes(store)
    assert correct_modes(config_of(store, *flags), is_store=is_store, account=account) == ""
    assert modes(store) == before


def test_an_empty_directory_is_corrected_and_a_missing_one_is_not_made(tmp_path):
    tmp_path.chmod(0o2770)
    assert correct_modes(config_of(tmp_path), is_store=False)
    assert modes(tmp_path) == [0o2700]
    assert correct_modes(config_of(tmp_path / "data"), is_store=False) == ""
    assert os.listdir(tmp_path) == []


def test_a_directory_of_another_user_and_a_group_of_this_process_is_worth_a_warning(tmp_path):
    tmp_path.chmod(0o2775)
    gid = tmp_path.stat().st_gid
    assert check_directory(config_of(tmp_path), OTHER_UID).startswith(f"others in group {gid} can write to {tmp_path}")


@pytest.mark.parametrize(
    ("mode", "account"),
    [(0o702, CURRENT), (0o777, CURRENT), (0o1777, CURRENT), (0o770, WITHOUT_GROUPS), (0o2775, WITHOUT_GROUPS)],
)
def test_a_store_that_others_may_write_to_is_refused(tmp_path, mode, account):
    tmp_path.chmod(mode)
    with pytest.raises(ConfigError) as caught:
        check_directory(config_of(tmp_path), account)
    (line,) = caught.value.problems
    assert line.startswith(f"flag -db: {tmp_path} is writable by other users (mode {mode:o}); run chmod 700")


def test_who_insists_may_have_such_a_store_and_is_warned(tmp_path):
    tmp_path.chmod(0o777)
    assert "is writable by other users" in check_directory(load([f"-db={tmp_path}", "-insecure"], {}))


def test_a_store_in_memory_is_in_no_directory(tmp_path):
    tmp_path.chmod(0o777)
    assert check_directory(load([f"-db={tmp_path}", "-storage=memory"], {})) == ""


def test_a_store_that_is_still_to_be_made_is_not(tmp_path):
    assert check_directory(load([f"-db={tmp_path}/data"], {})) == ""


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")


@needs_root
@pytest.mark.parametrize("name", [".", "db", "db/000001.log"])
def test_what_belongs_to_another_user_is_refused_by_name(tmp_path, name):
    store = make_store(tmp_path, 0o700)
    os.chown(store / name, 10001, -1)
    with pytest.raises(ConfigError) as caught:
        check_directory(config_of(store), is_store=True)
    (line,) = caught.value.problems
    assert line.startswith(f"flag -db: {store / name} belongs to uid 10001")
    assert line.endswith("or accept it with -insecure")
    assert os.listdir(store) == ["db"]


@needs_root
def test_what_mkfs_has_made_at_the_root_of_a_volume_is_nobodys_business(tmp_path):
    store = make_store(tmp_path, 0o700)
    (store / "lost+found").mkdir()
    os.chown(store / "lost+found", 10001, -1)
    assert check_directory(config_of(store), is_store=True) == ""


@needs_root
def test_who_insists_may_have_files_of_another_user_and_is_warned(tmp_path):
    store = make_store(tmp_path, 0o700)
    os.chown(store / "db", 10001, -1)
    assert "belongs to uid 10001" in check_directory(config_of(store, "-insecure"), is_store=True)


@needs_root
def test_files_of_another_user_are_accepted_if_the_directory_is_for_a_group_of_this_process(tmp_path):
    store = make_store(tmp_path, 0o2770)
    os.chown(store / "db", 10001, -1)
    before = modes(store)
    assert correct_modes(config_of(store), is_store=True) == ""  # the other user may need them
    assert modes(store) == before
    assert check_directory(config_of(store), is_store=True).startswith("others in group")
    with pytest.raises(ConfigError):
        check_directory(config_of(store), WITHOUT_GROUPS, is_store=True)


@needs_root
def test_owners_in_a_directory_that_is_no_store_are_not_looked_at(tmp_path):
    store = make_store(tmp_path, 0o700)
    os.chown(store / "db", 10001, -1)
    assert check_directory(config_of(store)) == ""


def test_a_file_system_that_gives_all_files_to_one_user_is_accepted(tmp_path):
    """On NFS with all_squash, all files belong to one user, even those that the process creates."""
    assert check_directory(config_of(make_store(tmp_path, 0o700)), OTHER_UID, is_store=True) == ""
