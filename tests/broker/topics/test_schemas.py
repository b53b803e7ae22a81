"""Messages that do not fit the schema of their topic are refused, however they are published."""

import sys

import orjson
import pytest
from structlog.testing import capture_logs

from miniqueue.broker.engine import schemas as module
from miniqueue.broker.engine.schemas import MAX_WORK, Schemas
from miniqueue.broker.runtime.accounts import Purpose
from miniqueue.core.options.batch import BatchOptions
from miniqueue.core.options.publish import PublishOptions
from miniqueue.core.settings.defaults import TopicDefaults
from miniqueue.core.settings.schedule import Schedule
from miniqueue.core.settings.schema import ANY_SCHEMA_WEIGHT
from miniqueue.errors.requests import InvalidSettingError, NoValidatorError, SchemaError
from miniqueue.storage.memory import MemoryStore
from miniqueue.tools.importing.importer import Importer, import_all
from tests.broker.leases.test_request_reply import Requester, received
from tests.broker.support import World
from tests.fakes import START_MS, ManualClock, broker_on, settle_down

ORDER = {
    "type": "object",
    "required": ["items"],
    "properties": {"items": {"items": {"properties": {"price": {"type": "number"}}}}, "a/b": {"pattern": "^(a+)+$"}},
}
GOOD, BAD = b'{"items":[{"price":5}]}', b'{"items":[{"price":"5"}]}'
PATH = "^/items/0/price: the value is not of type"


async def create(world: World, name: bytes = b"t", schema: object = ORDER, **settings: object) -> None:
    await world.broker.admin.create(name, {"schema": schema, **settings}).wait()


async def tick(world: World, seconds: float) -> None:
    """Advance the clock, then let the broker find what is due."""
    world.clock.advance(seconds)
    world.broker.tick()
    for _ in range(5):
        await settle_down()


# --- what is refused ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (BAD, PATH),
        (b"{}", "^/: .*items.* is a required property"),
        (b"[]", "^/: the value is not of type"),
        (b"not json", "^/: not JSON"),
        (b"", "^/: not JSON"),
        (b"[" * 2000 + b"]" * 2000, "^/: not JSON"),
        (b'{"items":[],"a/b":"ab"}', "^/a~1b: the value does not match"),
    ],
)
async def test_a_message_that_does_not_fit_is_refused_with_its_path(world, payload, text):
    await create(world)
    with pytest.raises(SchemaError, match=text):
        world.broker.publish(b"t", [payload])
    await world.publish(b"t", GOOD)
    assert await world.drain(b"t") == [GOOD]


CLOSED = '{"%s":[{"properties":{"id":{"type":"integer"}},"required":["id"]}],"unevaluatedProperties":false}'


@pytest.mark.parametrize(
    ("schema", "payload", "text"),
    [
        (CLOSED % "allOf", b'{"id":5,"x":1}', "^/: Unevaluated properties are not allowed .*x"),
        (CLOSED % "allOf", b'{"id":"5"}', "^/id: the value is not of type"),
        (CLOSED % "anyOf", b'{"id":5,"x":1}', "^/: the value fits none, .* or contains what none of them evaluates$"),
        (CLOSED % "anyOf", b'{"id":"5"}', "^/: the value fits none of several schemas"),
        ('{"prefixItems":[{}],"unevaluatedItems":{"type":"null"}}', b"[1,null,2]", "^/: Unevaluated items are not"),
    ],
)
def test_what_no_schema_evaluates_is_refused(schema, payload, text):
    Schemas().check(schema, [b'{"id":5}', b'{"id":6}'])
    with pytest.raises(SchemaError, match=text):
        Schemas().check(schema, [payload])


@pytest.mark.parametrize("draft", ["draft-04", "draft-06", "draft-07"])
def test_formats_are_checked_in_the_drafts_in_which_they_are_more_than_a_note(draft):
    schema = '{%s"properties":{"to":{"format":"email"},"by":{"format":"our-own"}}}'
    payload = b'{"to":"no address","by":"?"}'
    Schemas().check(schema % "", [payload])
    Schemas().check(schema % '"$schema":"https://json-schema.org/draft/2020-12/schema",', [payload])
    with pytest.raises(SchemaError, match=r'^/to: the value is not a "email"'):
        Schemas().check(schema % f'"$schema":"http://json-schema.org/{draft}/schema#",', [payload])


async def test_every_way_to_publish_is_checked(world):
    await create(world, partitions=2)
    broker = world.broker
    acts = [
        lambda payload: broker.publish(b"t", [payload]),
        lambda payload: broker.publish_with(b"t", payload, PublishOptions(key=b"k")),
        lambda payload: broker.publish_with(b"t", payload, PublishOptions(delay_seconds=5)),
        lambda payload: broker.publish_batch(b"t", [payload], b""),
        lambda payload: broker.publish_batch(b"t", [payload], b"", BatchOptions([b"k"], {})),
        lambda payload: broker.requests.request(b"t", payload, PublishOptions(), 5, lambda _: None, lambda _: None),
    ]
    for act in acts:
        with pytest.raises(SchemaError, match=PATH):
            act(BAD)
        act(GOOD)
    with pytest.raises(SchemaError, match=PATH):
        await broker.publish_unique(b"t", BAD, PublishOptions(unique_key=b"u"))
    await world.commit()
    assert broker.stats()[b"t"].published == len(acts) - 1  # and one is delayed


async def test_of_a_batch_nothing_is_added_and_the_message_is_named(world):
    await create(world)
    for publish in (world.broker.publish, lambda name, payloads: world.broker.publish_batch(name, payloads, b"id")):
        with pytest.raises(SchemaError, match=r"^message 3 of 3: /items/0/price: "):
            publish(b"t", [GOOD, GOOD, BAD])
    assert world.broker.stats()[b"t"].published == 0


async def test_a_duplicate_is_answered_as_such(world):
    await create(world)
    options = PublishOptions(dedup_id=b"id")
    world.broker.publish_with(b"t", GOOD, options)
    assert world.broker.publish_with(b"t", BAD, options).is_duplicate


async def test_the_first_message_of_a_topic_with_a_default_is_checked(world):
    world.broker.set_defaults(TopicDefaults({"*": {"schema": ORDER}}))
    with pytest.raises(SchemaError):
        world.broker.publish(b"t", [BAD])
    with pytest.raises(SchemaError):
        world.broker.publish_with(b"u", BAD, PublishOptions(key=b"k"))


async def test_a_schedule_is_checked_when_it_publishes_and_publishes_again_when_its_message_fits(world):
    await create(world)
    with capture_logs() as logs:
        await world.broker.scheduler.set(b"s", Schedule(b"t", BAD, every_ms=1000))[0].wait()
        await tick(world, 1)
    assert world.broker.stats()[b"t"].published == 0
    assert any("/items/0/price" in str(entry) for entry in logs)
    with pytest.raises(SchemaError, match=PATH):
        await world.broker.scheduler.fire(b"s")
    await world.broker.admin.change(b"t", {"schema": None}).wait()
    await tick(world, 0.5)
    assert await world.drain(b"t") == [BAD]


async def test_it_survives_a_restart_and_can_be_changed(world):
    await create(world)
    await world.restart()
    with pytest.raises(SchemaError):
        world.broker.publish(b"t", [BAD])
    await world.broker.admin.change(b"t", {"schema": None}).wait()
    await world.publish(b"t", BAD)


# --- what is not checked: it has been accepted already --------------------------------------------------------


async def test_what_is_in_the_topic_stays_and_is_delivered(world):
    await world.publish(b"t", b"ready")
    await world.broker.publish_with(b"t", b"delayed", PublishOptions(delay_seconds=5)).commit.wait()
    await world.broker.admin.change(b"t", {"schema": ORDER}).wait()
    assert await world.drain(b"t") == [b"ready"]
    await tick(world, 5)
    (await world.holding(b"t")).consumer.nack()
    assert await world.drain(b"t") == [b"delayed"]


async def test_dead_letters_and_redriven_messages_are_not_checked(world):
    await create(world, b"t.dlq")
    await world.broker.admin.create(b"t", {"max_deliveries": 1}).wait()
    await world.publish(b"t", BAD)
    (await world.holding(b"t")).consumer.nack()
    await world.commit()
    await create(world, b"other")
    assert await world.broker.redrive(b"t.dlq", target=b"other") == 1
    assert await world.drain(b"other") == [BAD]


async def test_imported_messages_are_not_checked():
    store = MemoryStore()
    importer = await Importer.begin(store, START_MS)
    lines = [b'{"topic":"t","settings":{"schema":{"type":"object"}}}\n', b'{"topic":"t","text":"x"}\n']
    assert (await import_all([importer], lines))[0] == 1
    broker = broker_on(store, ManualClock())
    await broker.start()
    assert broker.stats()[b"t"].ready == 1
    with pytest.raises(SchemaError):
        broker.publish(b"t", [b"x"])
    await broker.stop()


async def test_a_reply_goes_to_its_requester_and_into_no_topic(world):
    await create(world)
    requester = Requester(world, GOOD)
    (receipt,), _ = await received(world)
    world.broker.requests.reply(b"t", receipt, BAD)
    assert requester.heard == [BAD]


# --- without the validator ------------------------------------------------------------------------------------


async def test_without_the_validator_it_cannot_be_set_and_nothing_is_accepted(world, monkeypatch):
    await create(world)
    await world.publish(b"t", GOOD)
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    with capture_logs() as logs:
        await world.restart()
    (said,) = (entry for entry in logs if entry["event"] == "topics with a schema accept no messages")
    assert (said["topics"], said["first"], "pip install" in said["problem"]) == (1, "t", True)
    with pytest.raises(NoValidatorError, match="pip install"):
        world.broker.publish(b"t", [GOOD])
    with pytest.raises(InvalidSettingError, match=r"schema must be unset: .*pip install"):
        await create(world, b"u")
    with pytest.raises(InvalidSettingError, match="pip install"):
        world.broker.set_defaults(TopicDefaults({"*": {"schema": ORDER}}))
    assert await world.drain(b"t") == [GOOD]
    await world.broker.admin.change(b"t", {"lease_seconds": 60}).wait()  # other settings can be changed
    await world.broker.admin.change(b"t", {"schema": None}).wait()
    await world.publish(b"t", BAD)


async def test_without_schemas_nothing_is_said_and_nothing_is_imported(world, monkeypatch):
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    with capture_logs() as logs:
        await world.publish(b"t", b"x")
        await world.restart()
    assert not any("schema" in entry["event"] for entry in logs)


# --- what is hostile ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "schema", [{"type": "what"}, {"pattern": "(?=a)b"}, {"pattern": "a{1000}{1000}"}, {"$schema": "http://nowhere/x"}]
)
async def test_a_schema_that_cannot_be_checked_is_refused(world, schema):
    with pytest.raises(InvalidSettingError, match=r"^schema must be a JSON Schema: "):
        await create(world, schema=schema)
    with pytest.raises(InvalidSettingError, match=r"^schema must be a JSON Schema: "):
        world.broker.set_defaults(TopicDefaults({"*": {"schema": schema}}))


def any_of(count: int) -> dict:
    """A schema of nested alternatives, all of which are tried."""
    return {"anyOf": [{"type": "string"}, any_of(count - 1)]} if count else {"type": "string"}


@pytest.mark.parametrize(
    ("schema", "payload"),
    [
        ({"pattern": "^(a+)+$"}, b'"' + b"a" * 50_000 + b'b"'),
        ({"pattern": "^(a|a)*$"}, b'"' + b"a" * 50_000 + b'b"'),
        ({"uniqueItems": True}, b"[" + b",".join(b"%d" % n for n in range(25_000)) + b",5]"),
        ({"items": {"enum": list(range(900))}}, b"[" + b"900," * 2_000 + b"900]"),
        ({"items": any_of(10)}, b"[" + b"5," * 25_000 + b"5]"),
        ({"items": {"format": "regex", "pattern": "^b"}}, b"[" + b",".join([b'"(a{999}){999}"'] * 2_500) + b"]"),
        (
            {"$id": "http://json-schema.org/draft-07/schema#", "definitions": {"a": False}, "$ref": "#/definitions/a"},
            b"1",
        ),
        ({"items": {"unevaluatedProperties": any_of(10)}}, b"[" + b"{}," * 2_000 + b'{"a":5}]'),
        ({"items": {"multipleOf": 1e-300}, "maxItems": 1}, b"[" + b"1e308," * 1_000 + b"1]"),
    ],
)
def test_a_hostile_schema_or_message_takes_no_longer_than_others(schema, payload):
    with pytest.raises(SchemaError, match=r"^/"):  # not that both are too large together
        Schemas().check(TopicDefaults({"*": {"schema": schema}}).schemas()[0], [payload])


def closed(depth: int) -> dict:
    """A schema whose evaluation would take three times as long with each level."""
    return {"anyOf": [closed(depth - 1)], "unevaluatedProperties": False} if depth else {"additionalProperties": True}


def test_levels_of_what_is_evaluated_again_do_not_come_with_large_messages():
    schemas = Schemas()
    schemas.check(orjson.dumps(closed(3)).decode(), [b'{"a":"' + b"x" * 20_000 + b'"}'] * 2)
    with pytest.raises(SchemaError, match=r"^too large for the schema of the topic: 20008 bytes, not "):
        schemas.check(orjson.dumps(closed(6)).decode(), [b'{"a":"' + b"x" * 20_000 + b'"}'])


def test_the_place_is_not_looked_for_in_a_message_that_is_very_large():
    small, large = b"[" + b"1," * 30_000 + b"{}]", b"[" + b"1," * 90_000 + b"{}]"
    with pytest.raises(SchemaError, match=r"^/30000: the value is not of type"):
        Schemas().check('{"items":{"type":"integer"}}', [small])
    with pytest.raises(SchemaError, match=r"^/: the message does not fit, and is too large to say where: more than "):
        Schemas().check('{"items":{"type":"integer"}}', [large])


def test_a_large_message_and_a_large_schema_do_not_come_together():
    schema = '{"allOf":[' + ",".join(f'{{"items":{{"minimum":-{n}}}}}' for n in range(250)) + "]}"
    schemas = Schemas()
    work = schemas.check(schema, [b"[" + b"1," * 2_500 + b"1]"])
    assert MAX_WORK / 3 < work < MAX_WORK / 2
    for payloads in ([b"[" + b"1," * 7_500 + b"1]"], [b"[" + b"1," * 2_500 + b"1]"] * 3):
        with pytest.raises(SchemaError, match=r"^too large for the schema of the topic: 15\d{3} bytes, not "):
            schemas.check(schema, payloads)


def test_what_was_spent_before_counts(monkeypatch):
    monkeypatch.setattr(module, "MAX_WORK", 600)
    schemas = Schemas()
    work = schemas.check('{"type":"number"}', [b"5" * 30])
    assert work == 30 * (2 + ANY_SCHEMA_WEIGHT)
    assert schemas.check('{"type":"number"}', [b"5" * 20], work) == 600
    with pytest.raises(SchemaError, match="too large for the schema of the topic: 21 bytes, not 20"):
        schemas.check('{"type":"number"}', [b"5" * 21], work)


@pytest.mark.parametrize("size", [20, 20_000])
def test_the_place_where_alternatives_fail_is_found_without_a_list_of_all_errors(size):
    schema = '{"items":{"%s":[{"type":"string"},{"type":"null"},{"maxLength":1}]}}'
    payload = b"[" + b"null," * size + b"%b]"
    with pytest.raises(
        SchemaError, match=rf"^/{size}: the value fits none of several schemas, or one that it must not"
    ):
        Schemas().check(schema.replace('{"maxLength":1}', "false") % "anyOf", [payload % b"5"])
    with pytest.raises(SchemaError, match=r"^/: the value fits none, or more than one, of several schemas"):
        Schemas().check(schema % "oneOf", [payload % b'"a"'])


def test_a_failure_of_many_alternatives_takes_no_longer_than_their_success():
    alternatives = ",".join(['{"items":{"type":"string"}}'] * 100)
    with pytest.raises(SchemaError, match=r"^/: the value fits none of several schemas"):
        Schemas().check(f'{{"anyOf":[{alternatives}]}}', [b"[" + b"1," * 10_000 + b"1]"])


def test_references_into_alternatives_work_without_the_place():
    schema = '{"anyOf":[{"type":"string"},{"type":"null"}],"not":{"$ref":"#/anyOf/0"}}'
    Schemas().check(schema, [b"null"])
    with pytest.raises(SchemaError, match=r"^/: the value fits none, or more than one, of several schemas"):
        Schemas().check(schema, [b"5"])


@pytest.mark.parametrize(("pattern", "weight"), [("^[a-z]+$", 128), ("^.{1,20}$", 2048), ("(a|b)*a(a|b){100}c", 512)])
def test_patterns_weigh_as_much_as_they_may_take(pattern, weight):
    schemas = Schemas()
    schema = f'{{"pattern":"{pattern}"}}'
    assert schemas.check(schema, [b"[]"]) == 2 * (2 + ANY_SCHEMA_WEIGHT + weight)


def test_a_message_that_is_published_again_and_again_is_checked_once(monkeypatch):
    checked: list[bytes] = []
    monkeypatch.setattr(module, "_problem", lambda _, payload: checked.append(payload) or "")
    schemas = Schemas()
    for payload in (GOOD, GOOD, BAD, GOOD):
        schemas.check("{}", [payload])
    schemas.check('{"type":"object"}', [GOOD])
    assert checked == [GOOD, BAD, GOOD, GOOD]


def test_compiled_schemas_are_kept_within_their_memory(monkeypatch):
    monkeypatch.setattr(module, "MAX_KEPT_BYTES", 20 * (module.MAX_PATTERN_BYTES + module.MAX_STATE_BYTES))
    schemas = Schemas()
    for number in range(100):
        schemas.check(f'{{"maximum":{number}}}', [b"0"])
    assert len(schemas._kept) == 100
    for number in range(20):
        schemas.check(f'{{"pattern":"{number}"}}', [b"0"])
        assert schemas.size_bytes == sum(kept.size_bytes for kept in schemas._kept.values()) <= module.MAX_KEPT_BYTES
    assert len(schemas._kept) == 9
    many = ",".join(f'{{"pattern":"{number}"}}' for number in range(12))
    schemas.check(f'{{"allOf":[{many}]}}', [b"0"])
    assert len(schemas._kept) == 1


async def test_compiled_schemas_count_as_memory(world):
    await create(world)
    world.broker.tick()
    used_bytes = world.broker.memory.amounts()[Purpose.CACHE]
    await create(world, b"u", {"pattern": "a"})
    world.broker.tick()
    assert world.broker.memory.amounts()[Purpose.CACHE] - used_bytes > module.MAX_PATTERN_BYTES


def test_errors_are_short_and_printable():
    path = "x" * 1000 + "\n"
    with pytest.raises(SchemaError) as caught:
        Schemas().check('{"additionalProperties":false}', [b'{"%s":"%s"}' % (path[:-1].encode(), b"y" * 1000)])
    assert len(str(caught.value)) < 500
    assert str(caught.value).isprintable()
