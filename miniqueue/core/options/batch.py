"""The options of the messages of a batch, in columns: nearly always none, or only a key.

    of PUBEACH      one 2 KEY k two 0 three 4 KEY k TTL 60        each message, the number of option words, and these
    payloads        one         two   three
    keys            k           b""   k
    others                            key=k, ttl_seconds=60

    of PUBPACKED    3 3 5, onetwothree; 1 0 1, kk        columns, each joined, with its sizes (`core.message.numerals`)

Columns are encoded together, in C. `others` contains the messages with other options, or with options in an unusual
form; `core.options.publish` parses them one by one.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, repeat
from math import ceil
from types import MappingProxyType
from typing import Final, NamedTuple

from miniqueue.core.message.attributes import encode_keys
from miniqueue.core.message.numerals import SIZE_BYTES, split
from miniqueue.core.options.publish import MAX_KEY_BYTES, PublishOptions, parse_words
from miniqueue.errors.requests import InvalidOptionError

#: Maximum number of messages of PUBPACKED, which the number of its words does not limit.
MAX_PACKED: Final = 9_999
#: Maximum number of runs of messages that an error names.
MAX_NAMED: Final = 20
_NO_OTHERS: Final[Mapping[int, PublishOptions]] = MappingProxyType({})
_COUNT: Final = re.compile(rb"[0-9]{1,5}")
#: Number of words of a message with a key: the message, 2, KEY, the key.
_USUAL_WORDS: Final = 4


class BatchOptions(NamedTuple):
    """How to publish the messages of a batch.

    Attributes:
      keys: the key of each message, b"" for none; empty if no message has any options.
      others: all options of the messages that have more than a key, by their index in the batch.
    """

    keys: Sequence[bytes] = ()
    others: Mapping[int, PublishOptions] = _NO_OTHERS

    def attributes(self, now_ms: int) -> list[bytes] | None:
        """Return the encoded attributes of each message; None if no message has any options.

        Raises:
          InvalidOptionError: a message has an option that only single messages can have.
          InvalidAttributesError: headers and key of a message together are too long.
        """
        if not (self.others or any(self.keys)):
            return None
        encoded = encode_keys(self.keys)
        for index, options in self.others.items():
            if options != PublishOptions(options.headers, options.key, options.ttl_seconds):
                raise InvalidOptionError("the messages of a batch have headers, key and ttl, and no other options")
            encoded[index] = options.attributes(now_ms).encode()
        return encoded


NO_BATCH_OPTIONS: Final = BatchOptions()


def parse_each(words: list[bytes]) -> tuple[list[bytes], BatchOptions]:
    """Parse messages and their options: each message, the number of its option words, and these words.

    Raises:
      InvalidOptionError: a number is missing or wrong; and as `publish.parse_words`.
    """
    keys = words[3::_USUAL_WORDS]
    if _all_have_keys(words, keys):
        return words[::_USUAL_WORDS], BatchOptions(keys)
    return _parse_one_by_one(words)


def parse_packed(words: list[bytes]) -> tuple[list[bytes], BatchOptions]:
    """Parse the sizes of messages, the messages, and optionally the sizes of keys and the keys; size 0: no key.

    Raises:
      InvalidOptionError: the sizes do not match; there are too many messages; a key is too long.
    """
    count, *key_counts = [ceil(len(sizes) / SIZE_BYTES) for sizes in words[::2]]
    if not 0 < count <= MAX_PACKED:  # before anything is split: a word may have half a million
        raise InvalidOptionError(f"a batch has 1 to {MAX_PACKED} messages, not {count}")
    if len(words) not in (2, 4) or any(key_count != count for key_count in key_counts):
        raise InvalidOptionError("behind the messages is nothing, or of each the size of its key, and these")
    payloads, *keys = [_split(*pair) for pair in zip(words[::2], words[1::2], strict=True)]
    if keys and max(map(len, keys[0])) > MAX_KEY_BYTES:
        raise InvalidOptionError(f"key is 1 to {MAX_KEY_BYTES} bytes")
    return payloads, BatchOptions(keys[0]) if keys else NO_BATCH_OPTIONS


def _split(sizes: bytes, joined: bytes) -> list[bytes]:
    try:
        return split(sizes, joined)
    except ValueError as exc:
        text = "a size is 4 bytes, little-endian, and all sizes together are the bytes of what follows"
        raise InvalidOptionError(text) from exc


def _all_have_keys(words: list[bytes], keys: list[bytes]) -> bool:
    """Whether each message has a key in the usual form, and no other option."""
    return (
        len(words) == _USUAL_WORDS * len(keys)
        and words[1::_USUAL_WORDS].count(b"2") == len(keys)
        and words[2::_USUAL_WORDS].count(b"KEY") == len(keys)
        and all(keys)
        and max(map(len, keys), default=0) <= MAX_KEY_BYTES
    )


def _parse_one_by_one(words: list[bytes]) -> tuple[list[bytes], BatchOptions]:
    payloads: list[bytes] = []
    keys: list[bytes] = []
    others: dict[int, PublishOptions] = {}
    remaining = iter(words)
    for payload in remaining:
        option_words = _next_options(next(remaining, b""), remaining)
        if not option_words:
            keys.append(b"")
        elif len(option_words) == 2 and option_words[0] == b"KEY" and 0 < len(option_words[1]) <= MAX_KEY_BYTES:
            keys.append(option_words[1])
        else:
            options = others[len(payloads)] = parse_words(option_words)
            keys.append(options.key)
        payloads.append(payload)
    return payloads, BatchOptions(keys, others)


def _next_options(count: bytes, remaining: Iterator[bytes]) -> list[bytes]:
    """Return the next words of `remaining`; `count` is their number as the client has sent it."""
    if _COUNT.fullmatch(count):
        option_words = list(islice(remaining, int(count)))
        if len(option_words) == int(count):
            return option_words
    raise InvalidOptionError("behind each message is the number of the words of its options, and these")


def not_confirmed(count: int, indexes: Sequence[int]) -> str:
    """Return what an error adds if some parts of a spread topic have refused their messages of a batch.

    `indexes` are these messages, of `count`.
    """
    return f"; of {count} messages, {_named(indexes)} are not confirmed, the others were added"


def _named(indexes: Sequence[int]) -> str:
    """Return which messages these are, counted from 1, as in `1, 3-5`."""
    runs: list[list[int]] = []
    for number in map(int.__add__, indexes, repeat(1)):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    words = [str(first) if first == last else f"{first}-{last}" for first, last in runs]
    more = f", and {len(words) - MAX_NAMED} other runs" if len(words) > MAX_NAMED else ""
    return ", ".join(words[:MAX_NAMED]) + more
