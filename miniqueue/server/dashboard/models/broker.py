"""The read model `broker`: whether it is ready, its limits, its settings, its users, and the copies that follow it.

Requires the right to monitor the whole broker. Settings, which can contain paths, and users require the right to
administer it. There are no secrets in any of it.
"""

import os
import platform
from collections.abc import Mapping
from functools import partial
from typing import Final

from miniqueue.access.rights import Right
from miniqueue.access.users import User, check_permitted, is_permitted, viewed_by
from miniqueue.broker.inspect.attention import LimitUse
from miniqueue.broker.inspect.survey import Totals
from miniqueue.core.message.parts import whole_of
from miniqueue.errors import DrainingError
from miniqueue.server.dashboard.models.model import Context, Make, Model
from miniqueue.server.dashboard.models.overview import broker_facts
from miniqueue.server.dashboard.models.rights import roles_of
from miniqueue.server.views.tasks import shown_task, tasks_of
from miniqueue.wire.attribute_words import as_json


def open_broker(context: Context, _options: Mapping[str, bytes], user: User | None) -> Make:
    """Open what is shown of the broker; raises NotPermittedError."""
    check_permitted(user, Right.MONITOR, None, "GET /ui/data/broker")
    return partial(_make, context, user)


BROKER: Final = Model(open_broker)


async def _make(context: Context, user: User | None) -> dict[str, object]:
    broker, facts = context.broker, context.facts
    administers = is_permitted(user, Right.ADMIN)
    surveyed, expires_at = await broker.overview.look(), facts.certificate_expires_at()
    usage = as_json(await broker.usage(viewed_by(user)))
    return {
        "ready": _readiness(context),
        **broker_facts(context),
        "sync": facts.sync,
        "storage": facts.storage,
        "storePath": facts.store_path if administers else None,
        "python": platform.python_version(),
        "process": _process(context, surveyed.totals),
        "storeBytes": surveyed.totals.stored_bytes,
        "limits": [_limit(limit) for limit in broker.overview.limits()],
        "settings": [setting._asdict() for setting in facts.settings] if administers else None,
        "users": _users(context) if administers else None,
        "usage": usage,
        "certificateExpiresAtMs": None if expires_at is None else int(expires_at.timestamp() * 1000),
        "followers": [
            {"name": name, "lagSeconds": seconds, "lagBytes": size_bytes}
            for name, (seconds, size_bytes) in facts.followers().items()
        ],
        "tasks": [as_json(dict(shown_task(task).items())) for task in tasks_of(broker.tasks, user)],
    }


def _process(context: Context, totals: Totals) -> dict[str, object]:
    """Return what is shown of this process, if there are several."""
    return {
        "processId": os.getpid(),
        "processStartedAtMs": context.facts.process_started_at_ms,
        "topics": context.broker.topic_count,
        "publishedPerSecond": totals.published,
        "acknowledgedPerSecond": totals.acknowledged,
    }


def _readiness(context: Context) -> dict[str, object]:
    broker = context.broker
    refusal = broker.refusal
    reasons = [] if refusal is None else [str(refusal())]
    reasons += [f"topic {whole_of(name).decode()}: {fault}" for name, fault in broker.faults().items()]
    status = "not ready" if refusal is DrainingError else "degraded" if reasons else "ok"
    return {"status": status, "refused": [] if refusal is None else ["publish"], "reasons": reasons}


def _limit(limit: LimitUse) -> dict[str, object]:
    return {"name": limit.name, "used": limit.used, "limit": limit.limit, "flag": limit.setting or None}


def _users(context: Context) -> list[dict[str, object]] | None:
    users = None if context.sign_in is None else context.sign_in.users
    return None if users is None else [{"user": user.name, "roles": roles_of(user)} for user in users]
