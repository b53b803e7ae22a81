"""The parts of a broker know each other one way: what is made first hears of what is made later by events only."""

from collections.abc import Iterator
from functools import partial
from types import MethodType

from miniqueue.broker.broker import Broker
from miniqueue.broker.commit.events import Events
from miniqueue.broker.commit.journal import Committer, Journal
from miniqueue.broker.publish.publisher import Publisher
from miniqueue.broker.publish.unique import UniquePublisher
from miniqueue.broker.runtime.accounts import Memory, MemoryAccount
from tests.fakes import ManualClock, MemoryStore, broker_on

#: Owner and part: the owner makes the part, and hands itself in as callbacks.
OWNED = {frozenset({Journal, Committer}), frozenset({Publisher, UniquePublisher}), frozenset({Memory, MemoryAccount})}
#: Fewer would say that the walk over the objects does not find them.
MIN_OBJECTS = 20


def known_by(value: object) -> Iterator[object]:
    """Yield the objects of the broker that a value of an attribute refers to."""
    match value:
        case MethodType():
            yield from known_by(value.__self__)
        case partial():
            for argument in (value.func, *value.args, *value.keywords.values()):
                yield from known_by(argument)
        case list() | tuple() | dict() if not hasattr(value, "_fields"):
            for item in value.values() if isinstance(value, dict) else value:
                yield from known_by(item)
        case _ if type(value).__module__.startswith("miniqueue.broker.") and not isinstance(value, Broker | Events):
            yield value


def attributes_of(thing: object) -> list[object]:
    names = {name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())}
    slots = [getattr(thing, name) for name in names if hasattr(thing, name)]
    return [*slots, *getattr(thing, "__dict__", {}).values()]


def known_objects(broker: Broker) -> dict[object, set[object]]:
    """Return the objects of a broker, each with those that it knows."""
    graph: dict[object, set[object]] = {}
    left = [known for attribute in attributes_of(broker) for known in known_by(attribute)]
    while left:
        thing = left.pop()
        if thing not in graph:
            graph[thing] = {known for attribute in attributes_of(thing) for known in known_by(attribute)} - {thing}
            left += graph[thing]
    return graph


async def test_no_object_knows_itself_by_way_of_others_but_an_owner_by_its_part():
    graph = known_objects(broker_on(MemoryStore(), ManualClock()))
    assert len(graph) > MIN_OBJECTS
    reached = {thing: everything_behind(graph, thing) for thing in graph}
    cycles = {
        frozenset(type(other) for other in reached[thing] if thing in reached[other])
        for thing in graph
        if thing in reached[thing]
    }
    assert cycles == OWNED


def everything_behind(graph: dict[object, set[object]], thing: object) -> set[object]:
    reached: set[object] = set()
    left = [*graph[thing]]
    while left:
        known = left.pop()
        if known not in reached:
            reached.add(known)
            left += graph[known]
    return reached
