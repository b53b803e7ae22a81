"""How much a client may announce in one RESP command, and which words it may type without framing.

Knows figures only. Every one is checked on the line that announces a size, before anything is kept.

Sources: the figures for strangers are those of Redis 7 (networking.c, CVE-2021-32675).
"""

from dataclasses import dataclass, field
from typing import Final

MAX_WORDS: Final = 1024
#: The command, a delay, and a receipt for each message of the largest prefetch.
MAX_WORDS_OF_MANY: Final = 10_002
MAX_BULK_BYTES: Final = 1 << 20
MAX_COMMAND_BYTES: Final = 2 << 20
MAX_INLINE_BYTES: Final = 1 << 10
#: What a stranger may type: who it is. Then what one tries a queue with by telnet; ACK and its like also in a stream.
SIGN_IN_WORDS: Final = frozenset({b"AUTH", b"HELLO", b"PING", b"QUIT"})
INLINE_WORDS: Final = SIGN_IN_WORDS | {b"PUB", b"SUB", b"GET", b"ACK", b"NACK", b"BACK", b"DACK"}
MANY_WORDS: Final = frozenset(
    {b"MPUBLISH", b"PUBBATCH", b"PUBEACH", b"ACK", b"NACK", b"BACK", b"DACK", b"REJECT", b"EXTEND"}
)
#: One word of these has many messages.
PACKED_WORDS: Final = frozenset({b"PUBPACKED"})


@dataclass(frozen=True, slots=True)
class Limits:
    """What one command may be; more is a protocol error.

    Attributes:
      max_words: words of an array.
      max_words_of_many: words of an array that begins with one of `many_words`.
      max_bulk_bytes: one word, but for those of `packed_words`.
      max_command_bytes: all words of a command together.
      max_inline_bytes: an inline command without its LF.
      inline_words: the commands, in capitals, that may be inline.
      many_words: the commands, in capitals, that are made for many words.
      packed_words: the commands, in capitals, of which a word may be as long as a command.
      bad_count: what the error says about too many words.
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


#: For who knows a secret, with messages of the usual size.
USUAL: Final = Limits()
#: For who has not said yet who it is: enough to say it.
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
    """Return the usual limits with words of another size; a command has room for two of them at least."""
    return Limits(max_bulk_bytes=max_word_bytes, max_command_bytes=max(MAX_COMMAND_BYTES, 2 * max_word_bytes))
