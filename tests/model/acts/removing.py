"""What makes many messages go at once, or come again: which ones is not sure, but when it must be over."""

from collections.abc import Callable

from tests.model.acts.settling import Settling
from tests.model.rules.facts import Message, Op, Outcome


class Removing(Settling):
    """Knows of purges, deletions, redrives and groups that move; arguments as of `Stock`."""

    def begin_removal(self, topic: bytes, *, is_of_held: bool) -> None:
        """Some messages of a topic, or all, are about to be removed; it is unknown which."""
        for message in self.messages.values():
            for share in message.shares.values() if message.topic == topic else ():
                share.is_doubtful = share.is_doubtful or is_of_held or not self._is_held(share)

    def lose_reply(self, topic: bytes, group: bytes) -> None:
        """The reply to a RECEIVE that acknowledges what it hands out was lost; what it handed out is unknown."""
        for share in self.shares(topic, group):
            if not self._is_held(share):
                share.is_doubtful = share.may_have_come = True

    def begin_purge(self, op: Op, topic: bytes) -> None:
        """Messages that are not leased may be removed, and so may those that are returned before the act ends."""
        self.begin_removal(topic, is_of_held=False)
        op.then.append(lambda: self._end_purge(op, topic))

    def _end_purge(self, op: Op, topic: bytes) -> None:
        for message in self.messages.values():
            if message.topic == topic and message.op.index < op.index:
                for share in message.shares.values():
                    share.is_doubtful = share.is_doubtful or not self._is_held(share)

    def begin_deletion(self, op: Op, topic: bytes) -> None:
        """A topic is about to be deleted, with its messages, ids, and keys."""
        self.begin_removal(topic, is_of_held=True)
        self.pausing(op, topic)
        self._repeats.doubt(topic)
        self._deleted_index[topic] = float("inf")
        op.then.append(lambda: self._forget_ids(op, topic))
        for message in self.messages.values():
            for share in message.shares.values() if message.topic == topic else ():
                share.hold = None

    def begin_redrive(self, op: Op, topic: bytes) -> None:
        """Dead letters of a topic are about to come back."""
        self._redrives[op] = topic
        self._forget_rejections(topic)
        op.then.append(lambda: self._end_redrive(op))

    def _end_redrive(self, op: Op) -> None:
        self._forget_rejections(self._redrives.pop(op))

    def _forget_rejections(self, topic: bytes) -> None:
        for message in self.messages.values():
            for share in message.shares.values() if message.topic == topic else ():
                share.reject = None
                share.is_miscounted = True  # what is taken and not moved counts as returned

    def begin_seek(self, op: Op, topic: bytes, group: bytes) -> None:
        """A group is about to read something else, or to come and go; whatever it was done with may come again."""
        self._seeks[op] = (topic, group)
        self._loosen(topic, group)
        op.then.append(lambda: self._end_seek(op))

    def _end_seek(self, op: Op) -> None:
        self._loosen(*self._seeks.pop(op))  # what was taken meanwhile may have been before it, or behind

    def _loosen(self, topic: bytes, group: bytes) -> None:
        for message in self.messages.values():
            if message.topic == topic:
                share = message.share(group)
                share.ends, share.hold, share.is_doubtful, share.receipt = [], None, True, b""

    def sought(self, op: Op, topic: bytes, group: bytes, is_behind: Callable[[Message], bool | None]) -> None:
        """A group has all messages after a position again, and none before it; None: the position is unknown."""
        op.is_seek = True
        for message in self.messages.values():
            is_before = message.is_published and 0 <= message.op.ok_index < op.index
            if message.topic == topic and is_before and message.id.count(b"-") == 1:
                if is_behind(message):
                    message.share(group).is_doubtful = False
                elif is_behind(message) is False:
                    message.share(group).ends = [op]

    def deleted(self, op: Op, topic: bytes) -> None:
        """A topic is deleted, with all messages published before the request; its ids start again at 0."""
        self.accept(op)
        for message in self.messages.values():
            is_before = message.op.outcome is not Outcome.OPEN and message.op.ok_index < op.index
            if message.topic == topic and is_before and not message.may_move:  # otherwise it may be a dead letter
                for share in message.shares.values():
                    share.ends, share.hold = [op], None
        self._repeats.forget(op, topic)

    def _forget_ids(self, op: Op, topic: bytes) -> None:
        if op.outcome is not Outcome.REFUSED:
            self._ids = {place: message for place, message in self._ids.items() if place[0] != topic}
        self._deleted_index[topic] = op.ok_index

    def end(self, message: Message, op: Op) -> None:
        """One message is about to go by this request."""
        for share in message.shares.values():
            share.ends.append(op)
