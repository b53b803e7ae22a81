"""Hashes of secrets: a reader of the users file cannot authenticate with them.

    passwords             argon2id, 19 MiB and two passes: about 40 ms a guess      $argon2id$v=19$m=…,t=…,p=…$salt$hash
    generated tokens      SHA-256: no guess finds 192 random bits                   sha256:<64 hex digits>

The parameters are the minimum that OWASP's password storage cheat sheet recommends. Each hash contains its parameters,
so new hashes can use others later. The time of a comparison does not depend on the position of the first difference.
"""

import hashlib
import hmac
import re
import secrets

from miniqueue.errors import ConfigError

PASSWORD_MEMORY_KIB = 19_456
PASSWORD_PASSES = 2
#: Size of a token: 192 random bits.
TOKEN_BYTES = 24
#: Minimum length of a password.
MIN_PASSWORD_BYTES = 8
#: Maximum length of a secret; hashing a longer one would cost the broker more than sending it costs the client.
MAX_SECRET_BYTES = 1024
#: Maximum parameters of a hash in the file; more would keep the broker busy for minutes, or exhaust its memory.
_MAX_MEMORY_KIB = 1 << 20
_MAX_PASSES = 16

_TOKEN_PREFIX = "sha256:"
_STORED_TOKEN = re.compile(r"sha256:[0-9a-f]{64}")
_STORED_PASSWORD = re.compile(
    r"\$argon2id\$v=19\$m=(\d{1,9}),t=(\d{1,4}),p=([1-8])\$[A-Za-z0-9+/]{11,86}\$[A-Za-z0-9+/]{43,86}"
)
#: The hash of discarded random bytes; the secret of an unknown user is compared with it, which takes as long.
NOBODY = "$argon2id$v=19$m=19456,t=2,p=1$frxhX0B1JT2ovFS9yJd3eA$52RuhqlqMosBsdUio48XuqLHFcMEdh/VzTgowfONaT4"


def new_token() -> str:
    """Return a new token: 192 random bits, as text that needs no escaping anywhere."""
    return secrets.token_urlsafe(TOKEN_BYTES)


def hash_token(token: bytes) -> str:
    """Return the stored form of a token."""
    return _TOKEN_PREFIX + hashlib.sha256(token).hexdigest()


def check_password(password: bytes) -> bytes:
    """Return a new password if it has an allowed length; raises ConfigError otherwise."""
    if not MIN_PASSWORD_BYTES <= len(password) <= MAX_SECRET_BYTES:
        raise ConfigError([f"invalid password; must have {MIN_PASSWORD_BYTES} to {MAX_SECRET_BYTES} bytes"])
    return password


def hash_password(password: bytes) -> str:
    """Return the stored form of a password, with a new salt; takes about 50 ms and 19 MiB."""
    from cryptography.hazmat.primitives.kdf.argon2 import Argon2id  # noqa: PLC0415 - only with users: takes 25 ms

    salt = secrets.token_bytes(16)
    argon2id = Argon2id(salt=salt, length=32, iterations=PASSWORD_PASSES, lanes=1, memory_cost=PASSWORD_MEMORY_KIB)
    return argon2id.derive_phc_encoded(password)


def is_stored_secret(stored: str) -> bool:
    """Return whether a text is the stored form of a password or a token."""
    password = _STORED_PASSWORD.fullmatch(stored)
    if password:
        return int(password[1]) <= _MAX_MEMORY_KIB and 1 <= int(password[2]) <= _MAX_PASSES
    return _STORED_TOKEN.fullmatch(stored) is not None


def is_slow(stored: str) -> bool:
    """Return whether `matches` takes long; it then releases the lock of the interpreter."""
    return not stored.startswith(_TOKEN_PREFIX)


def matches(stored: str, secret: bytes) -> bool:
    """Return whether `stored` is the stored form of `secret`."""
    if len(secret) > MAX_SECRET_BYTES:
        return False
    if not is_slow(stored):
        return hmac.compare_digest(stored, hash_token(secret))
    from cryptography.exceptions import InvalidKey  # noqa: PLC0415 - only with users: takes 25 ms
    from cryptography.hazmat.primitives.kdf.argon2 import Argon2id  # noqa: PLC0415 - only with users, too

    try:
        Argon2id.verify_phc_encoded(secret, stored)
    except (InvalidKey, ValueError):
        return False
    return True
