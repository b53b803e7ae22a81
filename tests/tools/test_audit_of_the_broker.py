"""Whatever the broker does, what it has stored is sound after every commit: the audit cries no wolf."""

import pytest
from hypothesis.stateful import invariant

from miniqueue.tools.audit.store import Audit
from tests.model.machine import BrokerMachine
from tests.model.soak import check


class AuditedBroker(BrokerMachine):
    """The broker and its model, with a look at the store after each step."""

    @invariant()
    def the_store_is_sound(self):
        audit = Audit()
        for key, value in sorted(self.disk.pairs().items()):
            audit.take(key, value)
        audit.finish()
        assert [str(problem) for problem in audit.problems.kept] == []


@pytest.mark.slow
def test_store_is_sound_after_every_step():
    outcome = check(AuditedBroker, 60, is_repeatable=True)
    if outcome.divergence is not None:
        raise outcome.divergence
