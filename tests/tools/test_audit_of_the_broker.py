"""Whatever the broker does, what it has stored is sound after every commit: the audit cries no wolf."""

import pytest
from hypothesis import settings
from hypothesis.stateful import invariant

from miniqueue.tools.audit import Audit
from tests.broker.test_against_model import BrokerMachine, small_limits

__all__ = ["small_limits"]  # the fixture holds here too


class AuditedBroker(BrokerMachine):
    """The broker and its model, with a look at the store after each step."""

    @invariant()
    def the_store_is_sound(self):
        if hasattr(self, "store"):
            audit = Audit()
            for key, value in sorted(self.store.pairs().items()):
                audit.take(key, value)
            audit.finish()
            assert [str(problem) for problem in audit.problems.kept] == []


AuditedBroker.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestStoreOfTheBroker = pytest.mark.slow(AuditedBroker.TestCase)
