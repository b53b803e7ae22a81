"""What the client does with an older redis-py, whose connections read without a timeout, and whose errors lack codes.

The tests of the RESP clients pass with 5.3.1, 6.4.0, and 7.4.0 first in PYTHONPATH, too; here it is the newest.
"""

import pytest
import redis

from miniqueue_client import any_redis
from miniqueue_client.any_redis import code_of, pool_options, read_reply


class OldConnection:
    """A connection of redis-py before version 8."""

    def __init__(self, *, is_readable):
        self._is_readable = is_readable
        self.waited_seconds = None

    def can_read(self, timeout):
        self.waited_seconds = timeout
        return self._is_readable

    def read_response(self):
        return b"OK"


@pytest.fixture
def older(monkeypatch):
    monkeypatch.setattr(any_redis, "HAS_TIMEOUTS", False)


@pytest.mark.usefixtures("older")
def test_a_read_waits_as_long_as_it_may_for_the_reply():
    connection = OldConnection(is_readable=True)
    assert read_reply(connection, 5.0) == b"OK"
    assert connection.waited_seconds == 5.0
    with pytest.raises(redis.TimeoutError, match="no reply in time"):
        read_reply(OldConnection(is_readable=False), 5.0)


ERRORS = {
    redis.AuthenticationError("Authentication required."): "NOAUTH",
    redis.AuthenticationError("invalid username-password pair or user is disabled."): "WRONGPASS",
    redis.exceptions.ReadOnlyError("the store failed"): "READONLY",
    redis.exceptions.NoPermissionError("this user has no permissions to run PUB"): "NOPERM",
    redis.exceptions.ExecAbortError("Transaction discarded"): "EXECABORT",
    redis.ResponseError("LIMIT the topic holds too many"): None,
}


@pytest.mark.usefixtures("older")
@pytest.mark.parametrize("error", ERRORS, ids=str)
def test_a_code_that_redis_py_has_removed_is_that_of_its_class(error):
    assert code_of(error) == ERRORS[error]


def test_a_code_that_redis_py_has_kept_is_taken():
    assert code_of(redis.ResponseError("x", status_code="NOTOPIC")) == "NOTOPIC"


class PoolWithoutNotices:
    """A pool whose connections, those of its module, have no notices of maintenance."""


class AbstractConnection:
    """What redis-py calls the base of its connections."""


def test_notices_of_maintenance_are_switched_off_where_there_are_any():
    assert pool_options(PoolWithoutNotices) == {}
    assert not pool_options(redis.ConnectionPool)["maint_notifications_config"].enabled
