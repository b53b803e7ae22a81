"""Acts on many messages over HTTP, and the tasks that carry them out without a client that waits.

    POST   /topics/{topic}/messages/{act}    delete, front, redrive, due: ?key=&…&limit=&rate=&dry_run=true|task=true
    GET    /tasks                            the tasks of topics that the user may inspect
    GET    /tasks/{id}                       one task
    DELETE /tasks/{id}                       cancels it

Replies are JSON: {"count": 17}, or {"task": "1700000000000"}.
"""

from collections.abc import Callable
from functools import partial
from http import HTTPStatus

from starlette.types import ASGIApp, Scope

from miniqueue.access.rights import Right
from miniqueue.access.users import check_letters, check_target
from miniqueue.broker import Broker
from miniqueue.broker.acts.orders import OPTIONS, MessageAct
from miniqueue.broker.acts.requests import parse_task
from miniqueue.broker.acts.task import Task
from miniqueue.core.options import filter as filters
from miniqueue.core.options.consume import parse_switch
from miniqueue.errors import RequestError
from miniqueue.server.asgi.endpoints import JsonEndpoint, LongEndpoint
from miniqueue.server.asgi.replies import Reply, json_reply
from miniqueue.server.asgi.request import query_of
from miniqueue.server.asgi.routing import message_id_of, topic_within
from miniqueue.server.views.tasks import shown_task, task_named, tasks_of
from miniqueue.wire.attribute_words import as_json


def task_endpoints(broker: Broker) -> dict[tuple[str, str], ASGIApp]:
    """Return the endpoints by method and path."""
    return {
        ("POST", "/topics/{topic}/messages/{id}"): LongEndpoint(partial(_act, broker)),
        ("GET", "/tasks"): JsonEndpoint(partial(_list, broker)),
        ("GET", "/tasks/{id}"): JsonEndpoint(partial(_get, broker)),
        ("DELETE", "/tasks/{id}"): JsonEndpoint(partial(_cancel, broker)),
    }


async def _act(broker: Broker, is_there: Callable[[], bool], scope: Scope) -> Reply:
    word = message_id_of(scope).decode("utf-8", "replace")
    if word not in [*MessageAct]:
        raise RequestError(f"messages can only be {', '.join(MessageAct)}")
    act = MessageAct(word)
    names = (*filters.NAMES, "state", "group", *OPTIONS[act], "limit", "rate", "dry_run", "task")
    options = query_of(scope, names)
    check_target(scope.get("user"), options.get("to"))
    task = parse_task(act, topic_within(scope), options, broker.clock.now_ms())
    is_dry, is_task = parse_switch("dry_run", options), parse_switch("task", options)
    await broker.by_filter.locate(task, partial(check_letters, scope.get("user")))
    if is_task and not is_dry:
        return json_reply(HTTPStatus.OK, {"task": str(await broker.tasks.begin(task))})
    return json_reply(HTTPStatus.OK, {"count": await broker.by_filter.run(task, is_there, is_dry=is_dry)})


async def _list(broker: Broker, scope: Scope) -> object:
    query_of(scope, ())
    return {"tasks": [_shown(task) for task in tasks_of(broker.tasks, scope.get("user"))]}


async def _get(broker: Broker, scope: Scope) -> object:
    return _shown(_task(broker, scope, Right.MONITOR))


async def _cancel(broker: Broker, scope: Scope) -> object:
    number = _task(broker, scope, Right.ADMIN).number
    await broker.tasks.cancel(number).wait()
    return {"cancelled": str(number)}


def _task(broker: Broker, scope: Scope, right: Right) -> Task:
    return task_named(broker.tasks, scope.get("user"), right, message_id_of(scope))


def _shown(task: Task) -> object:
    return as_json(dict(shown_task(task).items()))
