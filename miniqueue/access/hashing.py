"""How secrets are kept: so that who reads the file cannot sign in.

    chosen by people      argon2id, 19 MiB and two passes: some 40 ms a guess      $argon2id$v=19$m=…,t=…,p=…$salt$hash
    generated tokens      SHA-256: no guess finds 192 random bits                  sha256:<64 hex digits>

The parameters are the least that OWASP's password storage cheat sheet recommends; they stand with each hash, so others
may be used for new ones later. Comparisons take the same time wherever the first difference is. Does no I/O.
"""

import hashlib
import hmac
import re
import secrets

PASSWORD_MEMORY_KIB = 19_456
PASSWORD_PASSES = 2
TOKEN_BYTES = 24
#: A longer secret is nobody's; hashing it would cost us more than sending it costs the peer.
MAX_SECRET_BYTES = 1024
#: Of a hash in the file: what is beyond it would keep the broker busy for minutes, or out of memory.
_MAX_MEMORY_KIB = 1 << 20
_MAX_PASSES = 16

_TOKEN_PREFIX = "sha256:"
_STORED_TOKEN = re.compile(r"sha256:[0-9a-f]{64}")
_STORED_PASSWORD = re.compile(
    r"\$argon2id\$v=19\$m=(\d{1,9}),t=(\d{1,4}),p=([1-8])\$[A-Za-z0-9+/]{11,86}\$[A-Za-z0-9+/]{43,86}"
)
#: Of random bytes that nobody knows: what an unknown user's secret is compared with.
NOBODY = "$argon2id$v=19$m=19456,t=2,p=1$frxhX0B1JT2ovFS9yJd3eA$52RuhqlqMosBsdUio48XuqLHFcMEdh/VzTgowfONaT4"


def new_token() -> str:
    """Return a token that nobody can guess: 192 random bits, as text that needs no escaping anywhere."""
    return secrets.token_urlsafe(TOKEN_BYTES)


def hash_token(token: bytes) -> str:
    """Return what is kept of a token."""
    return _TOKEN_PREFIX + hashlib.sha256(token).hexdigest()


def hash_password(password: bytes) -> str:
    """Return what is kept of a password: another text every time. Takes some 50 ms and 19 MiB."""
    from cryptography.hazmat.primitives.kdf.argon2 import Argon2id  # noqa: PLC0415 - only with users: takes 25 ms

    salt = secrets.token_bytes(16)
    argon2id = Argon2id(salt=salt, length=32, iterations=PASSWORD_PASSES, lanes=1, memory_cost=PASSWORD_MEMORY_KIB)
    return argon2id.derive_phc_encoded(password)


def is_stored_secret(stored: str) -> bool:
    """Tell whether a text is what is kept of a password or a token."""
    password = _STORED_PASSWORD.fullmatch(stored)
    if password:
        return int(password[1]) <= _MAX_MEMORY_KIB and 1 <= int(password[2]) <= _MAX_PASSES
    return _STORED_TOKEN.fullmatch(stored) is not None


def is_slow(stored: str) -> bool:
    """Tell whether `matches` takes long; then it lets other threads run meanwhile."""
    return not stored.startswith(_TOKEN_PREFIX)


def matches(stored: str, secret: bytes) -> bool:
    """Tell whether `secret` is the one of which `stored` is kept."""
    if len(secret) > MAX_SECRET_BYTES:
        return False
    if not is_slow(stored):
        return hmac.compare_digest(stored, hash_token(secret))
    from cryptography.exceptions import InvalidKey  # noqa: PLC0415 - only with users: takes 25 ms
    from cryptography.hazmat.primitives.kdf.argon2 import Argon2id  # noqa: PLC0415 - the same

    try:
        Argon2id.verify_phc_encoded(secret, stored)
    except (InvalidKey, ValueError):
        return False
    return True
