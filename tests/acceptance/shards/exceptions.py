"""The acceptance tests that are skipped with shards, or with spread topics, each with the reason; all others must pass.

Each table is by the path of a folder, of a file, or of a test below tests/acceptance.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

#: With MINIQUEUE_TEST_SHARDS.
EXCEPTIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "documents/test_protocol.py::test_every_block": "a transaction has topics that can be in different shards",
        "documents/test_readme.py": "shows one process, in a shell whose environment must have no settings of tests",
        "lifecycle/test_binary.py": "starts the one file, and shows that it is one process",
        "shards": "starts brokers with shards itself",
    }
)

_ORDER: Final = "the messages have no keys, so those of different parts have no order"
_IDS: Final = "expects ids that begin with 0-0; those of a spread topic begin with the number of a part"
_EXISTS: Final = "expects that the topic does not exist before; a spread one is created, with the group default"
_WINDOW: Final = "a stream of one message at a time can hold another one of each part; docs/shards.md says so"
#: With MINIQUEUE_TEST_SPREAD.
SPREAD_EXCEPTIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "clients/cluster/test_cluster_clients.py::test_node_clients_as_cluster_clients": _IDS,
        "clients/cluster/test_cluster_clients.py::test_redis_py_as_a_cluster_client": _ORDER,
        "clients/test_across_protocols.py::test_published_over_resp_consumed_over_http": _ORDER,
        "clients/test_curl.py::test_a_message_has_options": _IDS,
        "clients/test_curl.py::test_a_stream_carries_every_command": _ORDER,
        "clients/test_curl.py::test_messages_are_received_and_settled": _ORDER,
        "clients/test_redis_cli.py::test_netcat_consumes": _ORDER,
        "clients/test_redis_py.py::test_a_pipeline_of_1000": _ORDER,
        "clients/test_redis_py.py::test_nack_returns_to_the_front": _ORDER,
        "clients/test_redis_py.py::test_waiting_consumers_get_one_message_each": _WINDOW,
        "documents/test_examples.py::test_orders_that_do_not_fit": _IDS,
        "documents/test_examples.py::test_publish_prints_the_id": _IDS,
        "documents/test_examples.py::test_replay_prints": _EXISTS,
        "documents/test_examples.py::test_the_h2_consumer": _ORDER,
        "faults/test_limits.py::test_one_address": "each process has this limit, and accepts some of the connections",
        "faults/test_member_that_is_stopped.py": "a topic of one partition; of several, each member has some",
    }
)


def reason_against(node_id: str, *, is_spread: bool = False) -> str:
    """Return why a test is skipped with shards, or with spread topics; "" if it is not."""
    path = node_id.partition("tests/acceptance/")[2]
    reasons = {**EXCEPTIONS, **(SPREAD_EXCEPTIONS if is_spread else {})}
    return next((reason for name, reason in reasons.items() if path.startswith(name)), "")
