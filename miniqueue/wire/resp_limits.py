"""The limits of one RESP command, and the commands that may be sent inline.

Each limit is checked on the line that announces a size, before anything is stored.

Sources: the limits before authentication are those of Redis 7 (networking.c, CVE-2021-32675).
"""

from dataclasses import dataclass, field
from typing import Final

#: Maximum number of words of most commands: room for a publish with many headers.
MAX_WORDS: Final = 1024
#: Maximum number of words of `MANY_WORDS`: the command, a delay, and a receipt per message of the largest prefetch.
MAX_WORDS_OF_MANY: Final = 10_002
#: Maximum size of a word, by default; the broker sets it to its maximum message size.
MAX_BULK_BYTES: Final = 1 << 20
#: Maximum size of all words of a command, by default: two words of the maximum size.
MAX_COMMAND_BYTES: Final = 2 << 20
#: Maximum length of an inline command, which a person types.
MAX_INLINE_BYTES: Final = 1 << 10
#: The inline commands before authentication.
SIGN_IN_WORDS: Final = frozenset({b"AUTH", b"HELLO", b"PING", b"QUIT"})
#: The other inline commands, for trying the queue with telnet; ACK, NACK, BACK, and DACK also within a stream.
INLINE_WORDS: Final = SIGN_IN_WORDS | {b"PUB", b"SUB", b"GET", b"ACK", b"NACK", b"BACK", b"DACK"}
#: The commands with many messages or receipts.
MANY_WORDS: Final = frozenset(
    {b"MPUBLISH", b"PUBBATCH", b"PUBEACH", b"ACK", b"NACK", b"BACK", b"DACK", b"REJECT", b"EXTEND"}
)
#: The commands of which one word contains many messages.
PACKED_WORDS: Final = frozenset({b"PUBPACKED"})


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one command; a command over one of them is a protocol error.

    Attributes:
      max_words: maximum number of words of an array.
      max_words_of_many: maximum number of words of an array that begins with one of `many_words`.
      max_bulk_bytes: maximum size of a word, except those of `packed_words`.
      max_command_bytes: maximum size of all words of a command.
      max_inline_bytes: maximum length of an inline command without its LF.
      inline_words: the commands, in capitals, that may be inline.
      many_words: the commands, in capitals, with many words.
      packed_words: the commands, in capitals, of which one word may have the size of a command.
      bad_count: the error text for too many words.
    """

    max_words: int = MAX_WORDS
    max_words_of_many: int = MAX_WORDS_OF_MANY
    max_bulk_bytes: int = MAX_BULK_BYTES
    max_command_bytes: int = MAX_COMMAND_BYTES
    max_inline_bytes: int = MAX_INLINE_BYTES
    inline_words: frozenset[bytes] = field(default=INLINE_WORDS)
    many_words: frozenset[bytes] = field(default=MANY_WORDS)
    packed_words: frozenset[bytes] = field(default=PACKED_WORDS)
    bad_count: str = "invalid multibulk length"


#: The limits of an authenticated client, with messages of the default maximum size.
USUAL: Final = Limits()
#: The limits before authentication: enough for AUTH and HELLO.
STRANGER: Final = Limits(
    max_words=10,
    max_words_of_many=10,
    max_bulk_bytes=16 << 10,
    max_command_bytes=64 << 10,
    inline_words=SIGN_IN_WORDS,
    packed_words=frozenset(),
    bad_count="unauthenticated multibulk length",
)


def limits_for(max_word_bytes: int) -> Limits:
    """Return the usual limits with another maximum size of a word; a command has room for at least two of them."""
    return Limits(max_bulk_bytes=max_word_bytes, max_command_bytes=max(MAX_COMMAND_BYTES, 2 * max_word_bytes))
