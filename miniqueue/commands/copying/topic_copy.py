"""The copy of one topic: its position in each partition, and the steps that advance it.

    begin ─▶ marker of the target, else the position of the group ─▶ step ─▶ step …      each step copies one page

A step whose transaction turns out to be a duplicate, since an earlier attempt was carried out after all, takes its
position from the marker again.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from miniqueue.commands.copying import markers
from miniqueue.commands.copying.batches import Batch, batches_of
from miniqueue.commands.copying.markers import MARKER_TOPIC, CopyName
from miniqueue.errors import ServerError
from miniqueue_client import Bounds, Client, Group, PublishedId, RefusedError
from miniqueue_client.calls.groups import Start

#: Limits of a page.
_PAGE_MESSAGES: Final = 1000
_PAGE_BYTES: Final = 1 << 20
#: The time of its own that a group gets if its topic ends idle groups; the longest.
_NEVER_IDLE_SECONDS: Final = 1e9


class TopicCopy:
    """The copy of one topic.

    Args:
      source: a client of the broker that has the topic.
      target: a client of the broker that gets it.
      name: what is copied, and the name of the group at the source.
      now_ms: returns the time in ms since 1970.

    Attributes:
      name: what is copied.
      copied_count: number of messages that were copied by this object.
      expired_count: number of messages that were left out since they have expired.
      missed_count: number of messages that the source deleted before they were copied.
      lag: number of messages that are to be copied, as of the last look.
    """

    def __init__(self, source: Client, target: Client, name: CopyName, now_ms: Callable[[], int]) -> None:
        self.name = name
        self.copied_count = self.expired_count = self.missed_count = self.lag = 0
        self._source = source
        self._target = target
        self._now_ms = now_ms
        self._positions: dict[str, int] = {}
        self._held: dict[str, int] = {}
        self._goals: dict[str, int] | None = None
        self._has_begun = False

    def begin(self, start: Start = "earliest", *, idle_seconds: float | None = None) -> None:
        """Find out where to continue, and create the group that holds messages at the source; raises ClientError.

        Args:
          start: where to begin if there was no such copy; see `Client.create_group`.
          idle_seconds: a time after which the group ends; None: never, or as its topic says.
        """
        if self._has_begun:
            return
        marked = self._marked_positions()
        if self._group() is None:
            self._create_group(_text_of(marked) if marked else start, idle_seconds, is_marked=bool(marked))
        if (group := self._group()) is None:
            raise ServerError(f"group {self.name.name} of topic {self.name.topic} was deleted meanwhile")
        self._held = dict(map(_parsed, group.position))
        self._positions = {**self._held, **marked}
        if not marked:  # otherwise the next page begins before the messages that are missing
            self.missed_count = group.missed
        self._has_begun = True

    def look(self, bounds: Iterable[Bounds]) -> list[Bounds]:
        """Return the partitions that have messages to copy, and count these; raises ServerError.

        Args:
          bounds: the partitions of the topic at the source.
        """
        behind, self.lag, bounds = [], 0, list(bounds)
        if self._goals is None:
            self._goals = {each.partition: each.end for each in bounds}
        for each in bounds:
            position = self._positions.setdefault(each.partition, each.earliest)
            if position > each.end:
                raise self._other_topic()
            if each.end > position:
                behind.append(each)
                self.lag += each.end - position
        return behind

    @property
    def remaining(self) -> int:
        """Number of messages that are to be copied of those that the topic contained at the first look."""
        goals = self._goals or {}
        return sum(max(0, end - self._positions[partition]) for partition, end in goals.items())

    def step(self, partition: str) -> int:
        """Copy one page of a partition; return the number of messages copied. Raises ClientError."""
        begun_at = self._positions[partition]
        page = self._source.read(self.name.topic, partition, begun_at, count=_PAGE_MESSAGES, max_bytes=_PAGE_BYTES)
        self.missed_count += page.missed
        before = self.copied_count
        for batch in batches_of(partition, page, self._now_ms()):
            if not self._publish(batch):
                break
            self._positions[partition] = batch.next
            self.copied_count += len(batch.messages)
            self.expired_count += batch.expired_count
        else:
            self._positions[partition] = page.next
        self.lag -= self._positions[partition] - begun_at
        return self.copied_count - before

    def release(self) -> None:
        """Allow the source to delete what is copied; raises ClientError."""
        if self._positions != self._held and self._positions:
            held = dict(self._positions)
            try:
                self._source.seek_group(self.name.topic, self.name.name, _text_of(held))
            except RefusedError as exc:
                if exc.code != "NOGROUP":
                    raise
                self._source.create_group(self.name.topic, self.name.name, start=_text_of(held))
            self._held = held

    def end(self) -> None:
        """Delete the group at the source, unless it is the only one of its topic; raises ClientError."""
        try:
            self._source.delete_group(self.name.topic, self.name.name)
        except RefusedError as exc:
            if exc.code not in ("GROUPINUSE", "NOGROUP", "NOTOPIC"):
                raise

    def _publish(self, batch: Batch) -> bool:
        """Publish a batch with its marker; return False if it was published before, with the position of that time."""
        if not batch.messages:
            return True
        topic, positions = self.name.topic, {**self._positions, batch.partition: batch.next}
        with self._target.transaction() as transaction:
            if batch.priority is None:
                transaction.publish_each(topic, batch.messages, dedup_id=batch.dedup_id)
            else:
                for (payload, headers, key, ttl_seconds), dedup_id in zip(batch.messages, batch.dedup_ids, strict=True):
                    transaction.publish(
                        topic,
                        payload,
                        headers=headers,
                        key=key,
                        ttl_seconds=ttl_seconds,
                        priority=batch.priority,
                        dedup_id=dedup_id,
                    )
            transaction.publish(
                MARKER_TOPIC,
                markers.payload_of(self.name, positions),
                key=self.name.key,
                unique_key=self.name.key,
                replace=True,
                at=markers.NEVER_DUE,
                dedup_id=f"{self.name.key} {batch.dedup_id}",
            )
        marker: PublishedId = transaction.results[-1]
        return not marker.is_duplicate or self._continue_at_marker(batch)

    def _continue_at_marker(self, batch: Batch) -> bool:
        """Continue after a transaction that was a duplicate, at the position that the first one left; return False."""
        before = self._positions[batch.partition]
        marked = self._marked_positions()
        if marked.get(batch.partition, before) <= before:
            raise ServerError(
                f"topic {self.name.topic}: the marker {self.name.key} in {MARKER_TOPIC} of the target cannot be "
                "replaced; a consumer has leased it"
            )
        self.copied_count += min(marked[batch.partition] - before, len(batch.messages))
        self._positions |= marked
        return False

    def _marked_positions(self) -> dict[str, int]:
        after: str | None = None
        while True:
            try:
                page = self._target.execute(markers.search(self.name, after))
            except RefusedError as exc:
                if exc.code == "NOTOPIC":
                    return {}
                raise
            if page.messages:
                return markers.positions_of(page.messages[-1])
            if (after := page.next) is None:
                return {}

    def _create_group(self, start: Start, idle_seconds: float | None, *, is_marked: bool) -> None:
        try:
            self._source.create_group(self.name.topic, self.name.name, start=start, idle_seconds=idle_seconds)
        except RefusedError as exc:
            if exc.code == "BADOPTION" and is_marked:
                raise self._other_topic() from exc
            raise

    def _other_topic(self) -> ServerError:
        return ServerError(
            f"topic {self.name.topic}: the source does not have the messages that the marker of the copy names; it is "
            "another topic than the one that was copied; copy it under another --name"
        )

    def _group(self) -> Group | None:
        groups = self._source.groups(self.name.topic)
        return next((group for group in groups if group.name == self.name.name), None)


def _text_of(positions: Mapping[str, int]) -> str:
    return ",".join(f"{partition}-{offset}" for partition, offset in positions.items())


def _parsed(message_id: str) -> tuple[str, int]:
    partition, _, offset = message_id.rpartition("-")
    return partition, int(offset)


def never_idle(settings: Mapping[str, str]) -> float | None:
    """Return the idle time that a group needs to last in a topic with these settings; None: no time of its own."""
    return None if settings.get("group_idle_seconds", "0") in ("0", "default") else _NEVER_IDLE_SECONDS


def positions_of_group(groups: Sequence[Group], name: str) -> str | None:
    """Return where a group is, as a start of another group; None if it does not exist."""
    return next((",".join(group.position) for group in groups if group.name == name), None)
