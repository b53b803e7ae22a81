"""A client of no broker: it keeps what it is asked to publish, refuses what it is told to, and has logs to be read."""

from miniqueue.client import Bounds, Message, Page, RefusedError


class FakeClient:
    """Has topics with one partition each, whose logs begin at some offset.

    Args:
      logs: of each topic the earliest offset and the payloads from there on.
    """

    def __init__(self, logs=None, page_messages=3):
        self.logs = logs or {}
        self.page_messages = page_messages
        self.published = []
        self.refusals = []

    def partitions(self, topic):
        earliest, payloads = self._log(topic)
        return [Bounds("0", earliest, earliest + len(payloads))]

    def read(self, topic, partition, offset, *, count, max_bytes):
        earliest, payloads = self._log(topic)
        end = earliest + len(payloads)
        if offset > end:
            raise RefusedError("BADOPTION", "behind the end")
        first = max(offset, earliest)
        found = payloads[first - earliest :][: min(count, self.page_messages)]
        messages = tuple(Message(topic, f"0-{first + n}", payload) for n, payload in enumerate(found))
        return Page(messages, first + len(found), first - offset, earliest, end)

    def execute_all(self, calls):
        results = []
        for call in calls:
            refusal = self.refusals.pop(0) if self.refusals else None
            results.append(refusal or f"0-{len(self.published)}")
            if refusal is None:
                self.published.append(call.words)
        return results

    def _log(self, topic):
        if topic not in self.logs:
            raise RefusedError("NOTOPIC", "there is no such topic")
        return self.logs[topic]
