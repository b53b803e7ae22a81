"""How secrets are kept."""

import pytest

from miniqueue.access.hashing import (
    MAX_SECRET_BYTES,
    NOBODY,
    hash_password,
    hash_token,
    is_slow,
    is_stored_secret,
    matches,
    new_token,
)

#: A hash of an early version: hashes in users files must match forever.
PASSWORD = "$argon2id$v=19$m=19456,t=2,p=1$kdXpNvQ/Vjs4yfl3X73vpg$RBb86+clHs/7opCQ3gp9hGu14sl+6DRzPUMAu89VPt8"
TOKEN = hash_token(b"0123456789abcdef")


def test_a_password_is_kept_as_argon2id_with_the_least_cost_that_is_recommended():
    made = hash_password(b"correct horse")
    assert made.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert matches(made, b"correct horse")
    assert hash_password(b"correct horse") != made, "every hash has its own salt"


def test_a_token_is_kept_as_its_sha256():
    assert TOKEN == "sha256:9f9f5111f7b27a781f1f1ddde5ebc2dd2b796bfc7365c9c28b548e564176929f"


@pytest.mark.parametrize(
    ("stored", "secret", "is_right"),
    [
        (PASSWORD, b"correct horse", True),
        (PASSWORD, b"correct hors", False),
        (PASSWORD, b"", False),
        (TOKEN, b"0123456789abcdef", True),
        (TOKEN, b"0123456789abcdeF", False),
        (TOKEN, TOKEN.encode(), False),
        (PASSWORD, PASSWORD.encode(), False),
        (NOBODY, b"", False),
        (PASSWORD[:-60] + "$AAAA", b"correct horse", False),
    ],
)
def test_only_the_secret_itself_matches(stored, secret, is_right):
    assert matches(stored, secret) is is_right


def test_an_endless_secret_is_wrong_before_it_is_hashed():
    endless = b"x" * (MAX_SECRET_BYTES + 1)
    assert not matches(hash_token(endless), endless)


def test_tokens_have_192_bits_and_are_never_the_same():
    tokens = {new_token() for _ in range(100)}
    assert len(tokens) == 100
    assert {len(token) for token in tokens} == {32}


def test_only_passwords_are_slow():
    assert is_slow(PASSWORD)
    assert not is_slow(TOKEN)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hunter2",
        "sha256:abc",
        TOKEN + "0",
        PASSWORD.replace("argon2id", "argon2d"),
        PASSWORD.replace("m=19456", "m=99999999"),
        PASSWORD.replace("t=2", "t=999"),
        PASSWORD.replace("t=2", "t=0"),
        PASSWORD.replace("p=1", "p=99"),
    ],
)
def test_other_texts_are_not_what_is_kept(text):
    assert not is_stored_secret(text)


def test_what_is_made_is_what_is_kept():
    assert is_stored_secret(PASSWORD)
    assert is_stored_secret(TOKEN)
    assert is_stored_secret(NOBODY)
