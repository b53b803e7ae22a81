"""A client without a broker: it keeps what is published, refuses what the test chooses, and has logs to be read."""

from miniqueue_client import Bounds, RefusedError
from miniqueue_client.address import Address


class FakeClient:
    """Has topics with one partition each, whose logs begin at some offset.

    Args:
      logs: the earliest offset of each topic, and the payloads from there on.
    """

    def __init__(self, logs=None, page_messages=3):
        self.address = Address()
        self.logs = logs or {}
        self.page_messages = page_messages
        self.published = []
        self.refusals = []

    def topics(self):
        return list(self.logs)

    def partitions(self, topic):
        earliest, payloads = self._log(topic)
        return [Bounds("0", earliest, earliest + len(payloads))]

    def execute(self, call):
        """Carry out READ topic partition offset COUNT n BYTES n."""
        command, topic, partition, offset, _, count, *_ = call.words
        assert (command, partition) == ("READ", "0")
        earliest, payloads = self._log(topic)
        end = earliest + len(payloads)
        if offset > end:
            raise RefusedError("BADOPTION", "behind the end")
        first = max(offset, earliest)
        found = payloads[first - earliest :][: min(count, self.page_messages)]
        messages = [[b"0-%d" % (first + n), payload, {b"published_at_ms": 0}] for n, payload in enumerate(found)]
        return call.parse({b"messages": messages, b"next": first + len(found), b"missed": first - offset})

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
