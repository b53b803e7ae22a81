"""The door of a process for monitoring: one port shows all shards.

    GET /metrics                 the samples of all, each with the label `shard` (`metrics`)
    GET /stats                   the topics of all; sums of the memory; and the rest by shard
    GET /readyz                  what any rejects; a shard that does not answer is a problem
    GET /shards/{n}/backup       the store of one, as /backup
    GET /shards/{n}/changes      what was written to it, as /changes
    GET /backup, /changes        CROSSSHARD, with the number of `shards`: the stores are apart
    GET /livez, /healthz         of this process alone

Each shard answers for the user whom the door has authenticated, so that no page shows more than that of one process.
"""

import re
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

import orjson
from starlette.types import ASGIApp, Receive, Scope, Send

from miniqueue.access.rights import Right
from miniqueue.access.users import check_permitted
from miniqueue.errors import MiniqueueError
from miniqueue.errors.requests import OneShardError
from miniqueue.server.asgi.authorization import AuthMiddleware
from miniqueue.server.asgi.replies import JSON, NOT_FOUND, Reply, error_reply, json_reply
from miniqueue.server.shards.http.metrics import merge_metrics
from miniqueue.server.shards.http.owners import Answer, Owners, first_error
from miniqueue.server.views.outbox import fields_of_all
from miniqueue.server.views.wholes import whole_figures

_OF_ONE: Final = re.compile(r"/shards/(0|[1-9][0-9]{0,2})(/backup|/changes)")
_TOPICS: Final = b',"topics":{'
#: Statistics that are the same for all shards, or that only all together have.
_OF_ALL: Final = ("version", "disk_free_bytes")
_UNAVAILABLE: Final = 503
#: The statuses of `/readyz`, the worst last.
_STATUSES: Final = ("ok", "degraded", "not ready")


class MonitorDoor:
    """An application that shows all shards.

    Args:
      app: the application of this process.
      gate: authenticates clients; None if there are no users.
      owners: the owners of all shards.
      spread_topics: the spread topics, which several shards have parts of.
    """

    def __init__(
        self, app: ASGIApp, gate: AuthMiddleware | None, owners: Owners, spread_topics: Callable[[], Collection[bytes]]
    ) -> None:
        self._spread_topics = spread_topics
        self._app = app
        self._gate = gate
        self._owners = owners
        self._pages = {"/metrics": self._metrics, "/stats": self._stats, "/readyz": self._ready}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        path = scope["path"] if scope["type"] == "http" and scope["method"] == "GET" else ""
        page, of_one = self._pages.get(path), _OF_ONE.fullmatch(path)
        if page is None and of_one is None and path not in ("/backup", "/changes"):
            await self._app(scope, receive, send)
            return
        try:
            await self._authenticate(scope, may_be_unknown=path == "/readyz")
            if page is not None:
                await page(scope, receive, send)
            elif of_one is not None:
                await self._pass_on(int(of_one[1]), of_one[2], scope, receive, send)
            else:
                check_permitted(scope.get("user"), Right.ADMIN, None, f"GET {path}")
                raise OneShardError(path, self._owners.placing.shard_count)
        except OneShardError as exc:
            await error_reply(exc, more={"shards": exc.shard_count})(scope, receive, send)
        except MiniqueueError as exc:
            await error_reply(exc)(scope, receive, send)

    async def _authenticate(self, scope: Scope, *, may_be_unknown: bool) -> None:
        """Note the user of a request in its scope; raises MiniqueueError."""
        if self._gate is None:
            return
        try:
            scope["user"] = user = await self._gate.user_of(scope)
            self._gate.assign(scope, user)
        except MiniqueueError:
            if not may_be_unknown:
                raise

    async def _pass_on(self, shard: int, path: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request for the store of one shard, or for what was written to it, on to that shard."""
        if shard not in self._owners.numbers:
            await NOT_FOUND(scope, receive, send)
            return
        await self._owners.pass_on(shard, {**scope, "path": path, "raw_path": path.encode()}, receive, send)

    # --- pages of all -----------------------------------------------------------------------------------------

    async def _metrics(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the metrics of the shards that answer, and which do."""
        with self._owners.gathering(scope) as gathering:
            answers = await self._owners.try_all(scope, gathering)
            there = {shard: answer for shard, answer in enumerate(answers) if isinstance(answer, Answer)}
            reply = _error_of([*there.values()])
            if reply is None and there:
                bodies = {shard: answer.body for shard, answer in there.items()}
                body = await merge_metrics(bodies, len(answers))
                reply = next(iter(there.values())).reply(body)
            await (reply or error_reply(_first_failure(answers)))(scope, receive, send)

    async def _stats(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the statistics of all shards."""
        with self._owners.gathering(scope) as gathering:
            answers = await self._owners.ask_all(scope, gathering)
            merge = _merged_stats_of_parts if self._spread_topics() else _merged_stats
            reply = _error_of(answers) or Reply(200, merge([answer.body for answer in answers]), JSON)
            await reply(scope, receive, send)

    async def _ready(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send whether all shards can serve clients."""
        user = scope.get("user")
        may_see = self._gate is None or (user is not None and user.may(Right.MONITOR, None))
        with self._owners.gathering(scope) as gathering:
            answers = await self._owners.try_all(scope, gathering)
            await _merged_readiness(answers, may_see=may_see)(scope, receive, send)


def _error_of(answers: Sequence[Answer]) -> Reply | None:
    error = first_error(answers)
    return None if error is None else error.reply()


def _first_failure(answers: Sequence[Answer | MiniqueueError]) -> MiniqueueError:
    return next(answer for answer in answers if isinstance(answer, MiniqueueError))


def _merged_stats(bodies: Sequence[bytes]) -> bytes:
    """Return the statistics of all shards; those of topics, which are last and can be many, are not decoded."""
    parts = [body.partition(_TOPICS) for body in bodies]
    shards = [{"shard": shard, **orjson.loads(head + b"}")} for shard, (head, _, _) in enumerate(parts)]
    topics = b",".join(filter(None, (rest[:-2] for _, _, rest in parts)))  # without the ends of both objects
    free = [each["disk_free_bytes"] for each in shards if each["disk_free_bytes"] is not None]
    whole = {
        "version": shards[0]["version"],
        "uptime_seconds": max(each["uptime_seconds"] for each in shards),
        "refusal": next((each["refusal"] for each in shards if each["refusal"] is not None), None),
        "disk_free_bytes": min(free, default=None),
        "memory": _added([each["memory"] for each in shards]),
        **fields_of_all(shards),
        "shards": [{name: each[name] for name in each if name not in _OF_ALL} for each in shards],
    }
    return orjson.dumps(whole)[:-1] + _TOPICS + topics + b"}}"


def _merged_stats_of_parts(bodies: Sequence[bytes]) -> bytes:
    """Return the statistics of all shards, of which several can have the same topic."""
    topics: dict[str, list[dict[str, Any]]] = {}
    for body in bodies:
        for name, counts in orjson.loads(body)["topics"].items():
            topics.setdefault(name, []).append(counts)
    merged = {name: whole_figures(rows) for name, rows in topics.items()}
    return orjson.dumps(orjson.loads(_merged_stats(bodies)) | {"topics": merged})


def _added(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Add numbers by name, also those within."""
    added: dict[str, Any] = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [row[name] for row in rows if name in row]
        added[name] = _added(values) if isinstance(values[0], dict) else sum(values)
    return added


def _merged_readiness(answers: Sequence[Answer | MiniqueueError], *, may_see: bool) -> Reply:
    bodies: list[dict[str, Any]] = []
    reasons: list[str] = []
    for shard, answer in enumerate(answers):
        if isinstance(answer, Answer):
            bodies.append(orjson.loads(answer.body))
            reasons += [f"shard {shard}: {reason}" for reason in bodies[-1].get("reasons", ())]
        else:
            bodies.append({"status": "degraded"})
            reasons += [f"shard {shard} does not answer"] if may_see else []
    worst = max((body.get("status", "degraded") for body in bodies), key=_STATUSES.index)
    merged: dict[str, object] = {"status": worst}
    if refused := list(dict.fromkeys(act for body in bodies for act in body.get("refused", ()))):
        merged["refused"] = refused
    if reasons:
        merged["reasons"] = reasons
    if followers := _followers_of_all([body.get("followers", {}) for body in bodies]):
        merged["followers"] = followers
    return json_reply(_UNAVAILABLE if worst == _STATUSES[-1] else 200, merged)


def _followers_of_all(parts: Sequence[dict[str, dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """Return how far each copy is behind: as far as the shard that is most behind, with the writes of all shards."""
    followers: dict[str, dict[str, Any]] = {}
    for name in dict.fromkeys(name for part in parts for name in part):
        lags = [part[name] for part in parts if name in part]
        seconds = [lag["lag_seconds"] for lag in lags]
        followers[name] = {
            "lag_seconds": None if None in seconds else max(seconds),
            "lag_bytes": sum(lag["lag_bytes"] for lag in lags),
        }
    return followers
