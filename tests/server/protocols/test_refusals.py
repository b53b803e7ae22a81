"""What both protocols refuse is refused by both, with the same code and the same words."""

import pytest

from tests.server.protocols.speakers import HttpSpeaker, RefusedError, RespSpeaker

NO_TOPIC = "NOTOPIC There is no such topic"
NO_MESSAGE = "NOMESSAGE There is no such message: it never was, or was acknowledged"
NO_SECONDS = "BADDELAY A delay is a number of seconds, or a duration such as 1h30m, 0 or more"
BAD_COUNT = "BADOPTION a count is a whole number from 1 to 1000"
BAD_SIDE = "BADOPTION a side is one of in, out, both"
BAD_ID = "BADOPTION the id of a message is its partition and its number, as in 0-17 or 0.high-17"

#: A command, the request that asks for the same, and how it is refused; t has a message, and u is no topic.
REFUSED = [
    ("PAUSE u", "POST /topics/u/pause", NO_TOPIC),
    ("PAUSE t SIDEWAYS", "POST /topics/t/pause?side=sideways", BAD_SIDE),
    ("PAUSE t -5", "POST /topics/t/pause?seconds=-5", NO_SECONDS),
    ("STATS u", "GET /topics/u", NO_TOPIC),
    ("PEEK u", "GET /topics/u/messages", NO_TOPIC),
    ("PEEK t ID 0-9", "GET /topics/t/messages/0-9", NO_MESSAGE),
    ("PEEK t ID x", "GET /topics/t/messages/x", BAD_ID),
    ("PEEK t COUNT 0", "GET /topics/t/messages?count=0", BAD_COUNT),
    ("PEEK t STATE gone", "GET /topics/t/messages?state=gone", "BADOPTION a state is one of "),
    ("PURGE u", "POST /topics/u/purge", NO_TOPIC),
    ("PURGE t STATE leased", "POST /topics/t/purge?state=leased", "BADOPTION leased messages cannot be purged"),
    ("PURGE t OLDER x", "POST /topics/t/purge?older=x", NO_SECONDS),
    ("READ u 0 0", "GET /topics/u/partitions/0", NO_TOPIC),
    ("READ t 9 0", "GET /topics/t/partitions/9", "NOPARTITION The topic has no such partition"),
    ("READ t x 0", "GET /topics/t/partitions/x", "BADOPTION a partition is written as the ids of its messages begin"),
    ("READ t 0 4", "GET /topics/t/partitions/0?offset=4", "BADOPTION offset 4 is behind the end of the partition, 1"),
    ("READ t 0 x", "GET /topics/t/partitions/0?offset=x", "BADOPTION an offset is a whole number from 0 to "),
    ("READ t 0 0 COUNT 10001", "GET /topics/t/partitions/0?count=10001", "BADOPTION a count is a whole number from 0"),
    ("PARTITIONS u", "GET /topics/u/partitions", NO_TOPIC),
    ("TRACE t 0-1", "GET /topics/t/messages/0-1/trace", "NOMESSAGE nothing is known of what happened to such a "),
    ("TRACE t x", "GET /topics/t/messages/x/trace", "BADOPTION "),
    ("TRACE u 0-0", "GET /topics/u/messages/0-0/trace", NO_TOPIC),
    ("RECEIVE t COUNT 0", "POST /topics/t/receive?count=0", "BADPREFETCH A prefetch is a whole number from 1 to 10000"),
    (
        "RECEIVE t WAIT 61",
        "POST /topics/t/receive?wait=61",
        "BADDELAY a wait is a number of seconds, or a duration such as 1h30m, from 0 to 60",
    ),
    (
        "RECEIVE t LEASE 0",
        "POST /topics/t/receive?lease=0",
        "BADDELAY a lease is a number of seconds, or a duration such as 1h30m, more than 0",
    ),
    ("RECEIVE t GROUP a/b", "POST /topics/t/receive?group=a/b", "BADGROUP "),
    (
        "REQUEST t x TIMEOUT 0",
        "POST /request/t?timeout=0",
        "BADDELAY a timeout is a number of seconds, or a duration such as 1h30m, more than 0",
    ),
    ("REPLY t 1 x", "POST /topics/t/reply?receipt=1", "NOLEASE "),
    ("LEASES u GROUP g", "GET /leases?topic=u&group=g", NO_TOPIC),
    ("LEASES t COUNT 0", "GET /leases?topic=t&count=0", BAD_COUNT),
    ("SCHEDULE GET s", "GET /schedules/s", "NOSCHEDULE There is no such schedule"),
    ("SCHEDULE DELETE s", "DELETE /schedules/s", "NOSCHEDULE There is no such schedule"),
    ("TASK GET x", "GET /tasks/x", "BADOPTION the id of a task is a whole number"),
    ("TASK GET 1-", "GET /tasks/1-", "BADOPTION the id of a task is a whole number"),
    ("TASK GET 1", "GET /tasks/1", "NOTASK There is no such task"),
    ("TASK GET 1-2-3", "GET /tasks/1-2-3", "NOTASK There is no such task"),
    ("TASK CANCEL 1-2-3", "DELETE /tasks/1-2-3", "NOTASK There is no such task"),
    ("REDRIVE u", "POST /topics/u/redrive", NO_TOPIC),
    ("PUB t x DELAY -1", "POST /publish/t?delay=-1", "BADDELAY "),
    ("PUB t x REPLACE", "POST /publish/t?replace=true", "BADOPTION replace is an option of messages with a unique key"),
]


@pytest.mark.parametrize(("command", "request_line", "refusal"), REFUSED, ids=[command for command, *_ in REFUSED])
async def test_both_protocols_refuse_with_the_same_words(command, request_line, refusal, world):
    await world.publish(b"t", b"a")
    said = []
    for speaker, asked in ((RespSpeaker(world), [command]), (HttpSpeaker(world), request_line.split())):
        with pytest.raises(RefusedError) as caught:
            await speaker.ask(*asked)
        said.append(str(caught.value))
    assert said[0] == said[1]
    assert said[0].startswith(refusal)
    assert world.broker.topics() == [b"t"]
    assert world.broker.stats()[b"t"].ready == 1
