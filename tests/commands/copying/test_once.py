"""A copy that ends goes on by itself when a broker is lost."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from miniqueue.commands.copying.copying import Choices, Copying
from miniqueue.commands.copying.once import Patience, copy_once
from miniqueue.commands.shell.outage import Outage
from miniqueue_client import Client, ConnectError, DisconnectedError
from miniqueue_client.calls.errors import UntrustedError

#: Ten pages of a log.
PAYLOADS = [b"%d" % n for n in range(10_000)]


class Interrupted(Client):
    """A client that acts before, or after, one of its reads or transactions."""

    before: Callable[[], None] | None = None
    after: Callable[[], None] | None = None
    countdown = 4

    def read(self, topic, *words, **options):
        return self._interrupted(lambda: super(Interrupted, self).read(topic, *words, **options))

    def _carry_out(self, calls):
        return self._interrupted(lambda: super(Interrupted, self)._carry_out(calls))

    def _interrupted(self, act):
        self.countdown -= 1
        if not self.countdown and self.before:
            self.before()
        result = act()
        if not self.countdown and self.after:
            self.after()
            raise DisconnectedError("the reply was lost")
        return result


class Progress:
    """Collects what is shown of the progress."""

    def __init__(self):
        self.total = 0
        self.counts: list[int] = []

    @contextmanager
    def __call__(self, total: int) -> Iterator[Callable[[int], None]]:
        self.total = total
        yield self.counts.append


@pytest.mark.slow
@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_broker_that_restarts_is_waited_for_and_everything_is_copied_once(durable, side, moment):
    brokers = dict(zip(("source", "target"), durable, strict=True))
    warnings, pauses, progress = [], [], Progress()

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            brokers[side].start()

    with (
        Interrupted(brokers["source"].url, retries=0) as source,
        Interrupted(brokers["target"].url, retries=0) as target,
    ):
        for start in range(0, len(PAYLOADS), 1000):
            source.publish_many("orders", PAYLOADS[start : start + 1000])
        setattr(source if side == "source" else target, moment, brokers[side].kill)
        copying = Copying(source, target, Choices(["orders"]), lambda: 0, lambda: 0.0)
        copy_once(copying, progress, Patience(Outage(warnings.append, "trying again"), sleep))
        assert pauses == [0.2, 0.4, 0.8]
        # The error of the call that was interrupted, then that of each attempt to connect, once.
        assert 1 <= len(warnings) <= 2
        assert warnings[-1].endswith("; trying again")
        assert (progress.total, sum(progress.counts)) == (len(PAYLOADS), len(PAYLOADS))
        pages = [target.read("orders", "0", offset, count=1000) for offset in range(0, 11_000, 1000)]
        assert [message.payload for page in pages for message in page.messages] == PAYLOADS
        assert [group.name for group in source.groups("orders")] == ["default"]


@pytest.mark.parametrize("error", [UntrustedError("whose certificate is it"), ValueError("a bug")])
def test_what_does_not_pass_is_not_repeated(error):
    acts = []

    def act():
        acts.append(1)
        raise error

    with pytest.raises(type(error)):
        Patience(Outage(print), lambda _seconds: None).repeat(act)
    assert len(acts) == 1


def test_the_pauses_are_bounded():
    pauses = []

    def act():
        if len(pauses) < 8:
            raise ConnectError("it restarts")
        return "done"

    assert Patience(Outage(print), pauses.append).repeat(act) == "done"
    assert pauses == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]
