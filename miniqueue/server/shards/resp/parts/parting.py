"""Commands that concern a spread topic: which part of it carries one out, or which parts do.

PUBLISH, MPUBLISH                                     a part in turn: without keys there is no order among messages
PUB, PUBBATCH, REQUEST                                the part of the key; else of the unique key, else of the dedup id
PUBEACH, PUBPACKED                                    the parts of the keys, each its own messages: `batches`
ACK, NACK, BACK, DACK, REJECT, EXTEND                 the parts that are contained in the receipts, each its own
REPLY                                                 that in the receipt
MESSAGE, TRACE, CANCEL, READ                          that in the id, or in the number of the partition
LEN, STATS, PEEK, MESSAGES, and so on                 all: `asking`
"""

from collections.abc import Callable, Sequence
from itertools import count, repeat
from operator import mod
from typing import Final, NamedTuple, TypeAlias

from miniqueue.core.cursor.receipts import part_of_receipt, parts_of_receipts
from miniqueue.core.message.partitioning import indexes_by_run
from miniqueue.core.message.parts import part_for, part_of_id, part_of_partition
from miniqueue.core.options.batch import parse_each, parse_packed
from miniqueue.core.options.publish import parse_words, without_digest
from miniqueue.server.resp.commands.request_reply import timeout_of
from miniqueue.server.shards.links.earlier import Published, published_batch, published_with
from miniqueue.wire.resp_arguments import nack_options_of
from miniqueue.wire.resp_parser import Command
from miniqueue.wire.resp_replies import OK, bulk, joined_array, joined_arrays
from miniqueue.wire.resp_splitting import end_of_reply

#: The batches whose messages can have keys, each with the function that parses its words after the dedup id.
PARSERS: Final = {b"PUBEACH": parse_each, b"PUBPACKED": parse_packed}
SETTLES: Final = frozenset({b"ACK", b"NACK", b"BACK", b"DACK", b"REJECT", b"EXTEND"})
#: The settles whose last word is a value.
_VALUED: Final = frozenset({b"DACK", b"REJECT", b"EXTEND"})
_BY_ID: Final = frozenset({b"MESSAGE", b"TRACE", b"CANCEL"})
#: The commands whose second word is one of several acts.
_BELOW: Final = frozenset({b"MESSAGE", b"MESSAGES", b"GROUP", b"TOPIC"})
#: Chooses a part for a number of messages without a key.
Choose: TypeAlias = Callable[[int], int]
_turns = count()


def topic_at(command: Command) -> int:
    """Return which word of a command that concerns a spread topic is its name."""
    return 2 if command[0].upper() in _BELOW else 1


def is_about_own_leases(command: Command) -> bool:
    """Return whether a command lists what the connection that sends it holds."""
    return command[0].upper() == b"LEASES" and not {b"GROUP", b"MEMBER"} & {word.upper() for word in command[2::2]}


def turn() -> int:
    """Return the next number of a turn; its remainder is the part that is first now."""
    return next(_turns)


def part_of(command: Command, part_count: int, choose: Choose) -> int | None:
    """Return the number of the part that carries a command out; None if it concerns several.

    `choose` chooses the part of messages without a key.

    Raises RequestError for invalid options.
    """
    word = command[0].upper()
    if word in (b"PUBLISH", b"MPUBLISH"):
        return choose(len(command) - 2)
    if word in (b"PUB", b"REQUEST"):
        number = part_by_key(command, part_count)
        return choose(1) if number is None else number
    if word in (b"PUBBATCH", b"PUBEACH", b"PUBPACKED"):  # the latter two without messages, which a part refuses
        dedup_id = command[2] if len(command) > 2 else b""
        return part_for(without_digest(dedup_id), part_count) if dedup_id else choose(max(0, len(command) - 3))
    return _part_named(command, part_count)


def part_by_key(command: Command, part_count: int) -> int | None:
    """Return the part of a PUB or REQUEST with a key, or an id; None without any. Raises RequestError."""
    words = command[3:]
    key = parse_words(words if command[0].upper() == b"PUB" else timeout_of(words)[1]).placing_key
    return part_for(key, part_count) if key else None


def published_by(command: Command) -> Published | None:
    """Return what decides the part of a publish, and by what it is recognized; None for a publish without an id.

    Raises RequestError for invalid options.
    """
    word, words = command[0].upper(), command[3:]
    if word in (b"PUB", b"REQUEST"):
        options = parse_words(words if word == b"PUB" else timeout_of(words)[1])
        return published_with(options) if options.dedup_id or options.unique_key else None
    if word == b"PUBBATCH" or word in PARSERS:
        dedup_id = command[2] if len(words) > 1 else b""
        keys = PARSERS[word](words)[1].keys if dedup_id and word in PARSERS else ()
        return published_batch(dedup_id, keys) if dedup_id else None
    return None


def is_cut(command: Command) -> bool:
    """Return whether a command is a batch with a dedup id whose messages can be in several parts; see `Published`."""
    published = published_by(command) if command[0].upper() in PARSERS else None
    return published is not None and published.is_cut


def renamed(command: Command, part: bytes) -> Command:
    """Return a command with the name of a part in place of its topic."""
    at = topic_at(command)
    return [*command[:at], part, *command[at + 1 :]]


def _part_named(command: Command, part_count: int) -> int | None:
    """Return the part that the receipts, the id, or the partition of a command contains; None if it names none."""
    word, words = command[0].upper(), command[topic_at(command) + 1 :]
    if word in SETTLES:
        parts = {number % part_count for number in set(parts_of_receipts(_receipts(command)))}
        return None if len(parts) > 1 else parts.pop() if parts else 0
    if word == b"REPLY" and words:
        return part_of_receipt(words[0]) % part_count
    if word in _BY_ID and words:
        return part_of_id(words[0]) % part_count
    if word == b"READ" and words and words[0].isdigit():
        return part_of_partition(int(words[0][:9])) % part_count
    return None


def _receipts(command: Command) -> Sequence[bytes]:
    word = command[0].upper()
    words = nack_options_of(command, 2)[0][2:] if word == b"NACK" else command[2:]
    if word in _VALUED:
        words = words[:-1]
    return words[:-1] if words and words[-1].upper() == b"SYNC" else words


def names_receipts(command: Command) -> bool:
    """Return whether a settle names the receipts of messages; if not, it concerns the one that GET holds."""
    return bool(_receipts(command))


class Settles(NamedTuple):
    """The settles of one part, of those that a command names.

    Attributes:
      number: the number of the part.
      indexes: which receipts of the command these are.
      words: the command after its name and the topic.
    """

    number: int
    indexes: Sequence[int]
    words: Command


def cut(command: Command, part_count: int) -> list[Settles]:
    """Return the settles of each part that the receipts of a command contain."""
    receipts = _receipts(command)
    indexes = indexes_by_run(list(map(mod, parts_of_receipts(receipts), repeat(part_count))))
    rest = command[2 + len(receipts) :]
    return [Settles(part, own, [*map(receipts.__getitem__, own), *rest]) for part, own in indexes.items()]


def _all_settled(count: int) -> bytes:
    return OK if count == 1 else joined_array(count, OK * count)


def settled(settles: Sequence[Settles], answers: Sequence[bytes]) -> bytes:
    """Return the replies to the settles of each part as one, in the order of the receipts; or the first error."""
    if all(answer == _all_settled(len(each.indexes)) for each, answer in zip(settles, answers, strict=True)):
        return _all_settled(sum(len(each.indexes) for each in settles))
    outcomes: dict[int, bytes] = {}
    for each, answer in zip(settles, answers, strict=True):
        if len(each.indexes) == 1:
            outcomes[each.indexes[0]] = bulk(answer[1:-2]) if answer.startswith(b"-") else answer
        elif answer.startswith(b"-"):
            return answer
        else:
            at = answer.index(b"\r\n") + 2
            for index in each.indexes:
                end = end_of_reply(answer, at)
                outcomes[index], at = answer[at:end], end
    return joined_array(len(outcomes), b"".join(outcomes[index] for index in sorted(outcomes)))


# --- replies of several parts ---------------------------------------------------------------------------------


def messages_of(received: bytes) -> bytes:
    """Return the messages of a reply to RECEIVEANY as RECEIVE returns them; an error stays as it is."""
    if received.startswith(b"-"):
        return received
    at = received.index(b"\r\n") + 2
    arrays = list[bytes]()
    while at < len(received):
        messages_at = end_of_reply(received, received.index(b"\r\n", at) + 2)  # after the name of the topic
        at = end_of_reply(received, messages_at)
        arrays.append(received[messages_at:at])
    return joined_arrays(arrays)
