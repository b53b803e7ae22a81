"""What clients of RESP do, at random: each act is a generator that yields a command and is sent the reply.

    act ─▶ words ─▶ whoever has a connection ─▶ reply ─▶ the ledger judges it
                                             └▶ None: it will never come

So the same acts run on a broker without sockets (`walk`) and on one that is killed (`tests.durability.clients.player`).
"""

from collections.abc import Callable

from tests.model.acts.acting import Act
from tests.model.acts.consuming import Consuming
from tests.model.acts.log_acts import LogActs
from tests.model.acts.publishing import Publishing
from tests.model.acts.request_acts import RequestActs
from tests.model.acts.stream_acts import StreamActs
from tests.model.acts.topic_acts import TopicActs
from tests.model.acts.trace_acts import TraceActs
from tests.model.acts.transaction_acts import TransactionActs
from tests.model.grounds import Ground

#: For those who are not alone, and can do without their connection.
WITH_CONNECTION = ("stream", "request")


class Acts(Publishing, TransactionActs, Consuming, TopicActs, LogActs, StreamActs, RequestActs, TraceActs):
    """Chooses acts; arguments as of `Acting`."""

    def next(self, *, may_leave: bool = False) -> Act:
        """Choose what to do; `may_leave`: its connection may be lost over it."""
        ground = self.random.choice(self.grounds)
        acts = [self.publish, self.publish, self.publish_many, *[self.receive] * 4, *[self.settle] * 5, self.extend]
        acts += [self.transact, self.transact]
        more: list[Callable[[Ground], Act]] = [
            getattr(self, name) for name in ground.acts if may_leave or name not in WITH_CONNECTION
        ]
        return self.random.choice([*acts, *more])(ground)
