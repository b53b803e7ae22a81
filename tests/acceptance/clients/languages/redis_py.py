"""redis-py: goes through the scenario."""

import sys
from collections.abc import Callable

import redis
from redis.backoff import ConstantBackoff
from redis.retry import Retry

port, orders, protocol = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
billing, audit = f"{orders}-billing", f"{orders}-audit"
client = redis.Redis(
    port=port,
    protocol=protocol,
    decode_responses=True,
    retry=Retry(ConstantBackoff(0.1), 300),
    retry_on_error=[redis.ConnectionError],
    socket_timeout=60,
)


def say(step: str, *results: object) -> None:
    print(step, *("OK" if result is True else result for result in results), flush=True)


def refusal(act: Callable[[], object]) -> str:
    try:
        return f"nothing was refused: {act()}"
    except redis.RedisError as error:
        return str(error)


def in_transaction(*commands: tuple[str, ...]) -> list[object]:
    with client.pipeline() as transaction:
        for command in commands:
            transaction.execute_command(*command)
        return transaction.execute()


client.ping()
say("publish", client.publish(orders, "first"))
with client.pipeline(transaction=False) as pipeline:
    for number in range(9):
        pipeline.publish(orders, f"m{number}")
    say("pipeline", *pipeline.execute())
received = client.execute_command("RECEIVE", orders, "COUNT", 10)
say("receive", *(payload for _, payload, _ in received))
say("ack", *client.execute_command("ACK", orders, *(receipt for receipt, _, _ in received)))

client.publish(orders, "second")
# docs:
[[receipt, payload, _]] = client.execute_command("RECEIVE", orders, "WAIT", 20)
with client.pipeline() as transaction:
    transaction.publish(billing, payload)
    transaction.publish(audit, payload)
    transaction.execute_command("ACK", orders, receipt)
    replies = transaction.execute()
# docs end
say("exec", *replies)
say("unknown", refusal(lambda: in_transaction(("PUBLISH", billing, "never"), ("NOSUCH",))))
say("refused", refusal(lambda: in_transaction(("PUBLISH", billing, "never"), ("ACK", orders, receipt))))
with redis.Redis(port=port, protocol=protocol, decode_responses=True, single_connection_client=True) as alone:
    alone.execute_command("MULTI")
    alone.execute_command("PUBLISH", billing, "never")
    say("discard", alone.execute_command("DISCARD"))

client.publish(orders, "third")
say("restart")
sys.stdin.readline()
[[receipt, payload, _]] = client.execute_command("RECEIVE", orders, "WAIT", 20)
say("again", payload, client.execute_command("ACK", orders, receipt), client.publish(orders, "last"))
