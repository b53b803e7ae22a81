"""Nodes as the subcommands of CLUSTER show them, in the structure of Redis 7.

Source: https://redis.io/docs/latest/commands/cluster-slots/, cluster-shards, cluster-nodes, cluster-info.
"""

from collections.abc import Sequence

from miniqueue.core.message.slots import SLOT_COUNT
from miniqueue.server.cluster.nodes import Node
from miniqueue.wire.resp_replies import Value


def slots_of(nodes: Sequence[Node]) -> Value:
    """Return the reply to CLUSTER SLOTS: for each range its first and last slot, and its owner."""
    return [[node.slots.start, node.slots.stop - 1, [node.host, node.port, node.id, []]] for node in nodes]


def shards_of(nodes: Sequence[Node]) -> Value:
    """Return the reply to CLUSTER SHARDS: for each shard its ranges and its nodes."""
    return [{"slots": [node.slots.start, node.slots.stop - 1], "nodes": [_described(node)]} for node in nodes]


def _described(node: Node) -> dict[Value, Value]:
    return {
        "id": node.id,
        "port": node.port,
        "ip": node.host,
        "endpoint": node.host,
        "role": "master",
        "replication-offset": 0,
        "health": "online",
    }


def nodes_text(nodes: Sequence[Node], asked: Node) -> str:
    """Return the reply to CLUSTER NODES: a line for each node, the one that was asked with the flag `myself`."""
    return "".join(
        f"{node.id} {_shown_host(node)}:{node.port}@0 {'myself,' if node.id == asked.id else ''}master "
        f"- 0 0 0 connected {node.slots.start}-{node.slots.stop - 1}\n"
        for node in nodes
    )


def _shown_host(node: Node) -> str:
    return f"[{node.host}]" if ":" in node.host else node.host


def info_text(nodes: Sequence[Node]) -> str:
    """Return the reply to CLUSTER INFO."""
    fields = {
        "cluster_state": "ok",
        "cluster_slots_assigned": SLOT_COUNT,
        "cluster_slots_ok": SLOT_COUNT,
        "cluster_slots_pfail": 0,
        "cluster_slots_fail": 0,
        "cluster_known_nodes": len(nodes),
        "cluster_size": len(nodes),
        "cluster_current_epoch": 0,
        "cluster_my_epoch": 0,
    }
    return "".join(f"{name}:{value}\r\n" for name, value in fields.items())
