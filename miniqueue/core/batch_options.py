"""What a publisher says about each message of a batch, in columns: nearly always nothing, or no more than a key.

    of PUBEACH      one 2 KEY k two 0 three 4 KEY k TTL 60        of each the message, how many words of options, these
    payloads        one         two   three
    keys            k           b""   k
    others                            key=k, ttl_seconds=60

    of PUBPACKED    3 3 5, onetwothree; 1 0 1, kk        columns as they are, each joined, with its sizes: `core.joined`

What is in columns is encoded together, in C. Each of `others` goes the way of `publish_options`, which says what words
mean: whatever is not spelled in the usual way is among them.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from math import ceil
from types import MappingProxyType
from typing import Final, NamedTuple

from miniqueue.core.attributes import encode_keys
from miniqueue.core.joined import SIZE_BYTES, split
from miniqueue.core.look_errors import InvalidOptionError
from miniqueue.core.publish_options import MAX_KEY_BYTES, PublishOptions, parse_words

#: Messages of a batch whose words do not count them.
MAX_PACKED: Final = 9_999
_NO_OTHERS: Final[Mapping[int, PublishOptions]] = MappingProxyType({})
_COUNT: Final = re.compile(rb"[0-9]{1,5}")
_USUAL_WORDS: Final = 4  # of a message with a key: the message, 2, KEY, the key


class BatchOptions(NamedTuple):
    """How to publish the messages of a batch.

    Attributes:
      keys: of each message, b"" for none; empty when no message has any options.
      others: all options of those that have more than a key, by their place in the batch.
    """

    keys: Sequence[bytes] = ()
    others: Mapping[int, PublishOptions] = _NO_OTHERS

    def attributes(self, now_ms: int) -> list[bytes] | None:
        """Return what stays with each message, encoded; None when no message has any options.

        Raises:
          InvalidOptionError: a message has an option that only single messages have.
          InvalidAttributesError: headers and key of a message are too long together.
        """
        if not (self.others or any(self.keys)):
            return None
        encoded = encode_keys(self.keys)
        for place, options in self.others.items():
            if options != PublishOptions(options.headers, options.key, options.ttl_seconds):
                raise InvalidOptionError("the messages of a batch have headers, key and ttl, and no other options")
            encoded[place] = options.attributes(now_ms).encode()
        return encoded


NO_BATCH_OPTIONS: Final = BatchOptions()


def parse_each(words: list[bytes]) -> tuple[list[bytes], BatchOptions]:
    """Return messages and their options: of each the message, how many words its options have, and these.

    Raises:
      InvalidOptionError: the number of the words is missing or wrong; and as `parse_words`.
    """
    keys = words[3::_USUAL_WORDS]
    if _all_have_keys(words, keys):
        return words[::_USUAL_WORDS], BatchOptions(keys)
    return _parse_one_by_one(words)


def parse_packed(words: list[bytes]) -> tuple[list[bytes], BatchOptions]:
    """Return messages and their keys, of sizes and messages, and perhaps sizes and keys; one of size 0 is none.

    Raises:
      InvalidOptionError: sizes are not those of what they stand for; there are too many; a key is too long.
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
    """Whether each message has a key, in the usual way, and nothing else."""
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
    left = iter(words)
    for payload in left:
        given = _next_options(next(left, b""), left)
        if not given:
            keys.append(b"")
        elif len(given) == 2 and given[0] == b"KEY" and 0 < len(given[1]) <= MAX_KEY_BYTES:
            keys.append(given[1])
        else:
            options = others[len(payloads)] = parse_words(given)
            keys.append(options.key)
        payloads.append(payload)
    return payloads, BatchOptions(keys, others)


def _next_options(count: bytes, left: Iterator[bytes]) -> list[bytes]:
    """Return so many words of `left`."""
    if _COUNT.fullmatch(count):
        given = list(islice(left, int(count)))
        if len(given) == int(count):
            return given
    raise InvalidOptionError("behind each message is the number of the words of its options, and these")
