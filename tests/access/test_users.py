"""Users: what they may do, and the text that holds them."""

import pytest

from miniqueue.access.hashing import hash_token
from miniqueue.access.rights import Right
from miniqueue.access.users import User, Users, check_settings
from miniqueue.access.users_text import check_pattern, parse_users, render_users
from miniqueue.core.settings.quotas import NO_QUOTAS, Quotas
from miniqueue.errors import ConfigError, NotPermittedError

SECRET = hash_token(b"s")
INVALID_SECRET = "key secret: invalid; must be written by `miniqueue user passwd`"
ADA = User("ada", SECRET, "CN=ada,O=Example", {"publisher": ("orders", "orders.*"), "subscriber": ("*",)})


@pytest.mark.parametrize(
    ("pattern", "topic", "fits"),
    [
        ("orders", b"orders", True),
        ("orders", b"orders.eu", False),
        ("orders", b"order", False),
        ("orders.*", b"orders.eu", True),
        ("orders.*", b"orders.", True),
        ("orders.*", b"orders", False),
        ("*", b"anything", True),
        ("ä*", "ärger".encode(), True),
        ("ä*", b"\xc3", False),
        ("*", None, True),
        ("orders*", None, False),
    ],
)
def test_a_pattern_is_a_name_or_its_beginning(pattern, topic, fits):
    assert User("u", roles={"publisher": (pattern,)}).may(Right.PUBLISH, topic) is fits


@pytest.mark.parametrize(
    ("role", "rights"),
    [
        ("publisher", {Right.PUBLISH}),
        ("subscriber", {Right.CONSUME}),
        ("monitor", {Right.MONITOR}),
        ("admin", {Right.PUBLISH, Right.CONSUME, Right.MONITOR, Right.ADMIN}),
    ],
)
def test_a_role_has_its_rights_and_no_other(role, rights):
    user = User("u", roles={role: ("*",)})
    assert {right for right in Right if user.may(right, b"t")} == rights | {Right.OPEN, Right.KNOWN}


def test_a_user_without_roles_may_nothing_and_sees_nothing():
    assert not User("u").may(Right.PUBLISH, b"t")
    assert not User("u").sees(b"t")


def test_a_user_sees_the_topics_of_all_roles():
    user = User("u", roles={"publisher": ("a",), "subscriber": ("b*",)})
    assert [topic for topic in (b"a", b"b", b"bc", b"c") if user.sees(topic)] == [b"a", b"b", b"bc"]


def test_nothing_shows_the_hash():
    assert SECRET not in repr(ADA)


def test_users_are_found_by_all_that_they_are_known_by():
    users = Users([ADA, User("bob")])
    assert users.named("ada") is users.with_token(SECRET) is users.with_certificate("CN=ada,O=Example") is ADA
    assert users.named("eve") is users.with_token("") is users.with_certificate("") is None


def test_who_did_not_change_is_the_same_object_after_a_reload():
    before = Users([ADA, User("bob")])
    after = Users([User("ada", SECRET, "CN=ada,O=Example", dict(ADA.roles)), User("bob", SECRET)]).succeeding(before)
    assert after.named("ada") is ADA
    assert after.named("bob") is not before.named("bob")


def test_what_is_written_is_read_again():
    users = Users([ADA, User("b.o@b", roles={"admin": ('q"\\uote\x7f'.replace("\x7f", ""), "ä*")}), User("c")])
    assert list(parse_users(render_users(users))) == list(users)


def test_quotas_are_written_and_read_again():
    quotas = Quotas(10, 1 << 40, 100, 5, 1 << 20)
    users = parse_users(render_users(Users([ADA, User("bob")], {"ada": quotas, "gone": quotas})))
    assert users.quotas == {"ada": quotas, "bob": NO_QUOTAS}


def test_other_quotas_do_not_change_a_user():
    before = Users([ADA])
    after = Users([User("ada", SECRET, "CN=ada,O=Example", dict(ADA.roles))], {"ada": Quotas(max_topics=1)})
    assert after.succeeding(before).named("ada") is ADA
    assert after.succeeding(before).quotas == {"ada": Quotas(max_topics=1)}


def test_only_an_admin_of_everything_names_another_owner():
    admin, everything = User("a", roles={"admin": ("t",)}), User("b", roles={"admin": ("*",)})
    for owner in ("b", None):
        with pytest.raises(NotPermittedError, match="TOPIC SET of another owner"):
            check_settings(admin, {"owner": owner})
        check_settings(everything, {"owner": owner})
        check_settings(None, {"owner": owner})
    check_settings(admin, {"owner": "a"})
    check_settings(admin, {"max_bytes": 1})


def test_no_users_are_users_too():
    assert len(parse_users("")) == 0


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("x = 1", ["key 'x': unknown; must be tables [user.name]"]),
        ("user = 1", ["key user: invalid; must be tables [user.name]"]),
        ("user.ada = 1", ["user 'ada': invalid; must be a table"]),
        ('[user."a b"]', ["user 'a b': a user's name is 1 to 64 letters, digits, and . _ @ -"]),
        (
            "[user.ada]\nsecret = 'hunter2'",
            ["user 'ada': key secret: invalid; must be written by `miniqueue user passwd`"],
        ),
        ("[user.ada]\nsecret = 1", ["user 'ada': key secret: invalid; must be written by `miniqueue user passwd`"]),
        ("[user.ada]\nadmin = '*'", ["user 'ada': key admin: invalid; must be a list of patterns"]),
        (
            "[user.ada]\nadmin = ['a*b']\npublisher = ['a b']",
            [
                "user 'ada': key publisher: pattern 'a b': invalid; "
                "must be the name of a topic, or its beginning followed by *",
                "user 'ada': key admin: pattern 'a*b': invalid; "
                "must be the name of a topic, or its beginning followed by *",
            ],
        ),
        (
            "[user.ada]\nmax_topics = 0\nmax_bytes = '1GiB'\nmax_connections = true\nmax_memory_bytes = 1",
            [
                "user 'ada': key max_topics: invalid; must be a whole number from 1 to 10^15",
                "user 'ada': key max_bytes: invalid; must be a whole number from 1 to 10^15",
                "user 'ada': key max_connections: invalid; must be a whole number from 1 to 10^15",
                "user 'ada': key max_memory_bytes: invalid; must be a whole number from 1048576 to 10^15",
            ],
        ),
        (
            f"[user.a]\nsecret = '{SECRET}'\n[user.b]\nsecret = '{SECRET}'",
            ["user 'b': key secret: same as that of user 'a'"],
        ),
        (
            "[user.a]\ncertificate = 'CN=x'\n[user.b]\ncertificate = 'CN=x'",
            ["user 'b': key certificate: same as that of user 'a'"],
        ),
    ],
)
def test_every_problem_is_told_with_its_place(text, problems):
    with pytest.raises(ConfigError) as caught:
        parse_users(text)
    assert caught.value.problems == problems


def test_an_unknown_key_is_a_problem():
    with pytest.raises(ConfigError, match="key 'passwort': unknown; must be one of admin, certificate"):
        parse_users("[user.ada]\npasswort = 'x'")


@pytest.mark.parametrize("text", ["[user.ada]\nsecret = hunter2", "secret hunter2", "[user.ada]\nsecret='hunter2"])
def test_a_problem_of_the_file_does_not_quote_it(text):
    with pytest.raises(ConfigError) as caught:
        parse_users(text)
    assert caught.value.problems[0].startswith("no TOML (at ")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("pattern", ["", "a b", "a/b", "**", "a*b", "*a", "a" * 256, "\ud800"])
def test_what_can_fit_no_topic_is_no_pattern(pattern):
    with pytest.raises(ConfigError):
        check_pattern(pattern)


@pytest.mark.parametrize(
    "patterns", [(), ("a",), ("a*",), ("a.*", "a"), ("b", "missing", "c*"), ("*",), ("ä*",), ("a.b", "a.*", "a*")]
)
def test_topics_that_are_seen_are_those_of_sorted_ones_that_each_is_seen_of(patterns):
    topics = sorted(name.encode() for name in ("a", "a.b", "a.c", "aa", "b", "c", "c\U0010ffff", "d", "ä", "äö"))
    user = User("u", roles={"monitor": patterns, "publisher": patterns[:1]})
    assert user.seen(topics) == [topic for topic in topics if user.sees(topic)]
