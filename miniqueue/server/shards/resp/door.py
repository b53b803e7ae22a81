"""The door of a process for RESP: what concerns topics of other shards is passed on to their owners.

    commands ─▶ own topic, or none ─▶ as without shards
             ├─ a topic of another shard ─┬─ the client knows the nodes ─▶ MOVED, if they have the topic there
             │                            └─ others ─▶ to its owner (`owners`)
             ├─ a spread topic ─▶ its parts (`spread`)
             └─ no topic, but all shards have a part ─▶ to each of them; the parts are merged (`gathering`)

Replies have the order of the commands, whatever carries them out.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final

from miniqueue.access.rights import command_needs
from miniqueue.core.message.parts import SEPARATOR, part_name
from miniqueue.errors import InvalidTopicError, MiniqueueError
from miniqueue.server.resp.commands import table
from miniqueue.server.resp.commands.events import EventStream
from miniqueue.server.resp.keyed import KeyedRun
from miniqueue.server.resp.router import RoutedClient
from miniqueue.server.shards.links.link import Tunneled
from miniqueue.server.shards.links.peers import Peers
from miniqueue.server.shards.resp.gathering import gathered, is_gathered
from miniqueue.server.shards.resp.owners import Owners, charged_to, reply_count_of
from miniqueue.server.shards.resp.parts import parting, setting
from miniqueue.server.shards.resp.parts.stream import SpreadStream
from miniqueue.server.shards.resp.receiver import Receiver
from miniqueue.server.shards.resp.scheduling import (
    ask_for_schedule,
    change_schedule,
    changes_schedules,
    is_about_schedule,
)
from miniqueue.server.shards.resp.spread import SpreadTopics
from miniqueue.server.shards.resp.transaction import DoorTransaction, Places, reply_to_exec
from miniqueue.server.shards.resp.tunnel import Tunnel
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.resp_parser import Command, encode_command
from miniqueue.wire.resp_reader import Parsed, Run, RunTransaction
from miniqueue.wire.resp_splitting import WholeReplies

#: How many words a PUBLISH has, and a PUB with a key.
_PUBLISH_WORDS: Final = 3
_KEYED_WORDS: Final = 5
_SUBSCRIBES: Final = (b"SUBSCRIBE", b"SUB")


class Door:
    """The router of one connection.

    Args:
      client: the connection.
      peers: the shards.
    """

    def __init__(self, client: RoutedClient, peers: Peers) -> None:
        self._client = client
        self._peers = peers
        self._own = peers.placing.number
        self._last_topic, self._last_shard = b"", 0  # where the last messages without options were published
        self._owners = Owners(client, peers)
        self._receiver = Receiver(client, peers, self._owners)
        self._spread = SpreadTopics(client, peers, self._owners, self._receiver)

    # --- for the connection -----------------------------------------------------------------------------------

    def execute(self, command: Parsed) -> bool:
        """Carry out a command, and see to its reply, if it concerns other shards; return whether it does."""
        try:
            if self._client.mode is None:
                if isinstance(command, Run):
                    return self._publish(command.head[1], command.lasts, command)
                if command[0] == b"PUBLISH" and len(command) == _PUBLISH_WORDS and isinstance(command, list):
                    return self._publish(command[1], command[2:], command)
                if command[0] == b"PUB" and len(command) == _KEYED_WORDS and command[3].upper() == b"KEY":
                    return self._publish(command[1], command[2:3], command, command[4])
            return self._execute(command)
        except MiniqueueError as exc:
            self._client.reply(self._client.refusal(exc) * reply_count_of(command))
            return True

    def _publish(self, topic: bytes, payloads: list[bytes], command: Command | Run, key: bytes = b"") -> bool:
        """Do what `_execute` does, for messages without options, or with nothing but a key."""
        client = self._client
        if client.guard is not None and not client.guard.lets_publish(topic):
            return self._execute(command)
        if topic != self._last_topic:
            self._find(topic)
        if part_count := client.broker.spread_of(topic):
            if isinstance(command, Run) or command[0] == b"PUBLISH":
                self._spread.publish(topic, part_count, payloads)
            elif key:
                self._spread.publish_with_key(topic, part_count, command, key)
            else:  # an empty one
                return self._execute(command)
        elif self._last_shard == self._own:
            return False
        else:
            self._owners.lead(self._last_shard, topic, command)
        return True

    def publish_keyed(self, run: KeyedRun) -> bool:
        """Publish messages with keys to a topic of another shard, or to a spread topic; return whether it is one."""
        topic = run.topic
        try:
            if topic != self._last_topic:
                self._find(topic)
            if part_count := self._client.broker.spread_of(topic):
                self._spread.publish_run(run, part_count)
            elif self._last_shard == self._own:
                return False
            else:
                self._owners.lead_run(self._last_shard, run)
        except MiniqueueError as exc:
            self._client.reply(self._client.refusal(exc) * len(run.keys))
        return True

    def own(self, command: Parsed) -> Parsed | None:
        """Return a command as this process carries it out; None if it concerns other shards, or several parts."""
        try:
            shard_and_topic = self._place_of(command)
            if shard_and_topic is None or not isinstance(command, list):
                return None
            shard, topic = shard_and_topic
            if part_count := self._client.broker.spread_of(topic):
                if self._client.broker.earlier_of(topic).counts:
                    return None
                number = parting.part_by_key(command, part_count)
                if number is None:
                    return None
                topic = part_name(topic, number)
                shard, command = self._peers.placing.shard_of(topic), parting.renamed(command, topic)
        except MiniqueueError:  # it is refused in its turn
            return None
        return command if shard == self._peers.placing.number else None

    def pause(self) -> None:
        """Read no replies from the owners until `resume`."""
        self._owners.pause()
        self._spread.pause()

    def resume(self) -> None:
        """Read replies again."""
        self._owners.resume()
        self._spread.resume()

    def end(self) -> bool:
        """Leave the end of a connection that has subscribed to the owner, which answers what was sent before."""
        mode = self._client.mode
        if isinstance(mode, (Tunnel, SpreadStream)):
            mode.end()
            return True
        return False

    def leave(self) -> None:
        """End the links, after the replies to what was sent: the owners return what the client holds."""
        self._owners.leave()
        self._spread.leave()

    # --- where a command goes ---------------------------------------------------------------------------------

    def _execute(self, command: Parsed) -> bool:
        shard_and_topic = None if self._is_for_channels(command) else self._place_of(command)
        if shard_and_topic is not None:
            return self._lead(*shard_and_topic, command)
        if isinstance(command, (Run, RunTransaction)):
            return False  # the connection refuses it
        begin, is_change = _OF_ALL.get(command[0].upper()), changes_schedules(command)
        if begin is None and not is_change and not is_gathered(command):
            return False
        self._check(command)
        if begin is not None:
            return begin(self, command)
        work = partial(change_schedule, self._peers, self._client.broker.spread_of) if is_change else self._gathered
        self._owners.when_written(partial(work, command))
        return True

    def _lead(self, shard: int, topic: bytes, command: Parsed) -> bool:
        """Lead a command to the shard with its topic, or to its parts; return False if it is carried out here."""
        part_count = self._client.broker.spread_of(topic)
        is_spread = part_count > 0 or setting.spreads(command)
        if not is_spread and shard == self._peers.placing.number:
            return False
        if isinstance(command, list):
            self._check(command)
        if not is_spread:
            self._owners.lead(shard, topic, command)
        elif isinstance(command, Run):
            self._spread.publish(topic, part_count, command.lasts)
        elif isinstance(command, RunTransaction):
            self._multi(command.first)
            self._client.put_back([command.run, command.last])
        else:
            return self._spread.carry_out(topic, part_count, command)
        return True

    def _place_of(self, command: Parsed) -> tuple[int, bytes] | None:
        """Return the shard and the topic that a command concerns; None if it concerns none."""
        if isinstance(command, (Run, RunTransaction)):
            topic = (command if isinstance(command, Run) else command.run).head[1]
            if self._client.guard is not None and not self._client.guard.lets_publish(topic):
                return None
        else:
            topic_at = command_needs(command).topic_at
            if topic_at is None and command[0].upper() == b"GROUP":
                topic_at = 2  # GROUP HOLDERS requires a right on all topics
            if topic_at is None or len(command) <= topic_at:
                return None
            topic = command[topic_at]
        return self._shard_of(topic), topic

    def _find(self, topic: bytes) -> None:
        """Note where the next messages are published; raises InvalidTopicError."""
        self._last_shard = self._shard_of(topic)
        self._last_topic = topic

    def _shard_of(self, topic: bytes) -> int:
        if SEPARATOR in topic:  # no client can name a part
            raise InvalidTopicError
        return self._peers.placing.shard_of(topic)

    def _is_for_channels(self, command: Parsed) -> bool:
        """Return whether a command concerns the channels of Redis to which the connection has subscribed."""
        if self._client.mode is None or isinstance(command, (Run, RunTransaction)):
            return False
        return command[0].upper() in _SUBSCRIBES

    def _check(self, command: Command) -> None:
        if self._client.guard is not None:
            self._client.guard.check(command)

    def _receive_any(self, command: Command) -> bool:
        return self._receiver.receive_any(command)

    # --- transactions -----------------------------------------------------------------------------------------

    def _multi(self, command: Command) -> bool:
        if len(command) != 1:
            return False
        client = self._client
        places = Places(client.broker, self._peers, self._place_of)
        client.mode = DoorTransaction(client, self._peers.placing.number, places, self._execute_transaction)
        client.reply(replies.OK)
        return True

    def _execute_transaction(self, shard: int, commands: Sequence[Command | Run]) -> None:
        """Carry out a transaction in another shard, from MULTI to EXEC; raises ShardAwayError."""
        count = sum(map(reply_count_of, commands)) - 2
        self._owners.forward_transaction(shard, commands, lambda data: reply_to_exec(data, count))

    # --- all shards -------------------------------------------------------------------------------------------

    async def _gathered(self, command: Command) -> bytes:
        """Return the reply of all shards; what is gathered for it is charged to the client meanwhile."""
        if is_about_schedule(command):
            return await ask_for_schedule(self._peers, self._owners.ask, command)
        with charged_to(self._client.account) as charge:

            async def ask_all(command: Command) -> list[bytes]:
                return list(map(charge, await self._owners.ask_all(command)))

            return await gathered(self._client, self._peers.placing, self._owners.ask, ask_all, command)

    def _events(self, command: Command) -> bool:
        """Report the events of the other shards, too, which begin with OK, and end with the connection."""
        client = self._client
        links = [self._owners.link(shard) for shard in self._peers.others()]
        client.reply(table.execute(client, command))
        for link in links:
            link.open_tunnel(Tunneled(WholeReplies(client.send, skip=1).take, self._end_events))
            link.write(encode_command(command))
        return True

    def _end_events(self) -> None:
        """End the connection: what happened in a shard meanwhile is not known, so the client has to begin again."""
        if isinstance(self._client.mode, EventStream):
            self._client.leave()
            self._client.close_when_sent()


#: Begin what concerns several shards; return whether they have. A table of a connection would keep it in a cycle.
_OF_ALL: Final[Mapping[bytes, Callable[[Door, Command], bool]]] = MappingProxyType(
    {b"MULTI": Door._multi, b"EVENTS": Door._events, b"RECEIVEANY": Door._receive_any}
)
