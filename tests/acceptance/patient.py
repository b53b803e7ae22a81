"""redis-py, as patient as the tests are.

By itself it takes a broker that says nothing for 5 s for dead, and sends again what that broker may have carried out:
on a machine that stands still for so long a message would be there twice, and no promise of the broker broken.
"""

from functools import partial

import redis
import redis.asyncio

from tests.acceptance.tools import MAX_SECONDS

Redis = partial(redis.Redis, socket_timeout=MAX_SECONDS, socket_connect_timeout=MAX_SECONDS, retry=None)
Connection = partial(redis.Connection, socket_timeout=MAX_SECONDS, socket_connect_timeout=MAX_SECONDS, retry=None)
SSLConnection = partial(redis.SSLConnection, socket_timeout=MAX_SECONDS, socket_connect_timeout=MAX_SECONDS, retry=None)
AsyncRedis = partial(redis.asyncio.Redis, socket_timeout=MAX_SECONDS, socket_connect_timeout=MAX_SECONDS, retry=None)
