"""PUBEACH and PUBPACKED with keys of several parts: each part gets its own messages, and the replies become one.

    PUBEACH orders 7f  one 2 KEY a  two 2 KEY b  three 2 KEY a
      ─▶ part 5: PUBEACH 7f  one 2 KEY a  three 2 KEY a  ─▶ [[5120-17, 5120-18], 0] ─┐
      ─▶ part 2: PUBEACH 7f  two 2 KEY b                 ─▶ [[2048-9], 0] ───────────┴▶ [[5120-17, 2048-9, 5120-18], 0]

Each part adds its messages in one commit, or none of them, and knows the dedup id for itself. So a batch that is sent
again after an error is completed. It is a duplicate if it is one in all parts. If a part refuses, the error says which
messages are not confirmed, counted from 1.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain, pairwise
from typing import Final, NamedTuple

import hiredis

from miniqueue.broker import Commit
from miniqueue.core.message.ids import following_ids, joined_ids, parse_message_id, runs_of
from miniqueue.core.message.numerals import sizes_of
from miniqueue.core.message.partitioning import indexes_by_number
from miniqueue.core.message.parts import part_for
from miniqueue.core.options.batch import BatchOptions, not_confirmed
from miniqueue.core.options.publish import without_digest
from miniqueue.errors import MiniqueueError
from miniqueue.server.resp.commands.publish import all_ids, batch_reply, parse_batch, runs_of_ids
from miniqueue.server.resp.replies import LateReply
from miniqueue.server.resp.router import RoutedClient
from miniqueue.server.shards.resp.parts.parting import PARSERS, Choose
from miniqueue.wire.resp_parser import Command
from miniqueue.wire.resp_replies import bulk, integer, joined_array

#: Least number of words of these commands.
LEAST_WORDS: Final = 5


class Share(NamedTuple):
    """The messages of one part.

    Attributes:
      number: the number of the part.
      indexes: which messages of the batch these are; ascending.
      words: the command after its name and the topic.
    """

    number: int
    indexes: Sequence[int]
    words: Command


def cut(
    command: Command,
    part_count: int,
    choose: Choose,
    check: Callable[[Sequence[bytes], BatchOptions], None],
    batch_id: Callable[[bytes, int], bytes],
) -> list[Share]:
    """Return the messages of each part.

    Args:
      command: the batch.
      part_count: the number of parts.
      choose: chooses the part of messages without a key.
      check: raises an error for payloads or options that are not possible.
      batch_id: returns the dedup id that parts remember; see `Earlier.batch_id`.

    Raises RequestError.
    """
    word, dedup_id, words = command[0].upper(), command[2], command[3:]
    payloads, options = PARSERS[word](words)
    if not any(options.keys):
        number = part_for(without_digest(dedup_id), part_count) if dedup_id else choose(len(payloads))
        return [Share(number, range(len(payloads)), command[2:])]
    check(payloads, options)
    of_no_key = 0
    if keyless_count := sum(not key for key in options.keys):
        of_no_key = part_for(without_digest(dedup_id), part_count) if dedup_id else choose(keyless_count)
    numbers = [part_for(key, part_count) if key else of_no_key for key in options.keys]
    shares = indexes_by_number(numbers)
    dedup_id = batch_id(dedup_id, part_count) if dedup_id else dedup_id
    if len(shares) == 1:
        return [Share(numbers[0], range(len(payloads)), [dedup_id, *words])]
    if word == b"PUBPACKED":
        columns = [payloads, options.keys]
        return [Share(number, own, [dedup_id, *_packed(columns, own)]) for number, own in shares.items()]
    messages = _messages(words)
    return [
        Share(number, own, [dedup_id, *chain.from_iterable(map(messages.__getitem__, own))])
        for number, own in shares.items()
    ]


def _packed(columns: Sequence[Sequence[bytes]], indexes: Sequence[int]) -> Command:
    own = [list(map(column.__getitem__, indexes)) for column in columns]
    return [word for column in own for word in (sizes_of(column), b"".join(column))]


def _messages(words: Command) -> list[Command]:
    """Return the words of each message of PUBEACH, which have been parsed."""
    starts = [0]
    while starts[-1] < len(words):
        starts.append(starts[-1] + 2 + int(words[starts[-1] + 1]))
    return [words[start:stop] for start, stop in pairwise(starts)]


class Joining:
    """Collects the replies of the parts to a batch, and gives the client one.

    Args:
      word: the name of the command.
      shares: what each part has got.
      give: gets the reply.
    """

    def __init__(self, word: bytes, shares: Sequence[Share], give: Callable[[bytes], None]) -> None:
        self._word = word
        self._shares = shares
        self._give = give
        self._answers: list[bytes] = [b""] * len(shares)
        self._missing = len(shares)

    def replies(self) -> "list[LateReply]":
        """Return what the reply of each share is given to."""
        return [_ReplyOfShare(self, index) for index in range(len(self._shares))]

    def take(self, index: int, answer: bytes) -> None:
        """Take the reply of one share; the last one completes the reply to the client."""
        self._answers[index] = answer
        self._missing -= 1
        if not self._missing:
            self._give(joined(self._word, self._shares, self._answers))


class _ReplyOfShare(LateReply):
    """The reply of one share, which no client waits for."""

    __slots__ = ("_index", "_joining")

    def __init__(self, joining: Joining, index: int) -> None:
        super().__init__()
        self._joining = joining
        self._index = index

    def give(self, reply: bytes) -> None:
        """Hand the reply over."""
        super().give(reply)
        self._joining.take(self._index, reply)


def publish_here(client: RoutedClient, commands: Sequence[Command], replies: Sequence[LateReply]) -> None:
    """Publish the messages of parts of this shard; their commits give the replies."""
    for command, late in zip(commands, replies, strict=True):
        try:
            act = parse_batch(command)
            accepted = client.broker.publish_batch(act.topic, act.payloads, act.dedup_id, act.each)
        except MiniqueueError as exc:
            late.give(client.refusal(exc))
            continue
        reply = batch_reply(accepted, runs_of_ids if command[0].upper() == b"PUBPACKED" else all_ids)
        give = partial(_give, client, accepted.commit, late, reply)
        if accepted.commit.is_done:
            give()
        else:
            client.wait_for(accepted.commit, b"", 0, accepted.size_bytes)  # commands that read it wait for it
            accepted.commit.add_listener(give)


def _give(client: RoutedClient, commit: Commit, late: LateReply, reply: bytes) -> None:
    late.give(reply if commit.error is None else client.refusal(commit.error))


def joined(word: bytes, shares: Sequence[Share], answers: Sequence[bytes]) -> bytes:
    """Return the replies to all shares as the reply to the batch."""
    failed = [(share, answer) for share, answer in zip(shares, answers, strict=True) if answer.startswith(b"-")]
    if failed:
        return _refused(shares, failed)
    is_packed = word == b"PUBPACKED"
    ids: list[bytes] = [b""] * sum(len(share.indexes) for share in shares)
    flags: list[int] = []
    for share, answer in zip(shares, answers, strict=True):
        reader = hiredis.Reader()
        reader.feed(answer)
        listed, is_duplicate = reader.gets()
        flags.append(is_duplicate)
        own = chain.from_iterable(map(_ids_of_run, listed[::2], listed[1::2])) if is_packed else listed
        for index, message_id in zip(share.indexes, own, strict=True):
            ids[index] = message_id
    return b"*2\r\n" + (_runs(ids) if is_packed else _bulks(ids)) + integer(min(flags))


def _ids_of_run(first_id: bytes, count: int) -> list[bytes]:
    return following_ids(first_id, count)


def _bulks(ids: Sequence[bytes]) -> bytes:
    return joined_array(len(ids), b"".join(map(bulk, ids)))


def _runs(ids: Sequence[bytes]) -> bytes:
    """Return the first id and the length of each run of ids."""
    runs = runs_of(joined_ids(map(parse_message_id, ids)), len(ids))
    return joined_array(2 * len(runs), b"".join([bulk(first) + integer(count) for first, count in runs]))


def _refused(shares: Sequence[Share], failed: Sequence[tuple[Share, bytes]]) -> bytes:
    """Return the error of the parts that have refused their messages, or whose outcome is not known."""
    error = next((answer for _, answer in failed if answer.startswith(b"-UNKNOWN")), failed[0][1])
    if len(failed) == len(shares):
        return error
    indexes = sorted(chain.from_iterable(share.indexes for share, _ in failed))
    count = sum(len(share.indexes) for share in shares)
    return error[:-2] + not_confirmed(count, indexes).encode() + b"\r\n"
