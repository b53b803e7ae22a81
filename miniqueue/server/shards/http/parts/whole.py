"""A request that a spread topic carries out as a whole: its parts are asked, and their replies become one.

A part that has no such group, or, of dead letters, does not exist yet, is left out, unless that is true of all parts.
An error of any other part is the reply: half of an answer would be a wrong one.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final
from urllib.parse import quote_from_bytes

import orjson
from starlette.types import Receive, Scope, Send

from miniqueue.errors.requests import GroupExistsError, UnknownGroupError, UnknownTopicError
from miniqueue.server.asgi.replies import JSON
from miniqueue.server.asgi.request import unless_gone
from miniqueue.server.shards.http.owners import Answer, Gathering, first_error, together
from miniqueue.server.shards.http.parts.asking import Parts, Spread, with_query
from miniqueue.server.views.wholes import Row

#: The codes of errors of parts that are left out.
ABSENT: Final = frozenset({UnknownTopicError.code, UnknownGroupError.code})
EXISTING: Final = frozenset({GroupExistsError.code})


class Whole:
    """One request.

    Args:
      parts: asks the parts.
      topic: the topic.
      scope: the request.
      gathering: charges the client for what the parts reply.
    """

    def __init__(self, parts: Parts, topic: Spread, scope: Scope, gathering: Gathering) -> None:
        self.topic = topic
        self.scope = scope
        self._parts = parts
        self._gathering = gathering

    async def ask(self, number: int, /, **query: bytes | None) -> Answer:
        """Return the answer of a part to this request with other parameters, without those that are None."""
        return await self._parts.ask(self.topic, number, with_query(self.scope, query), self._gathering)

    async def ask_all(self) -> Sequence[Answer]:
        """Return the answers of all parts, by number."""
        self._parts.check_all(self.topic)
        return await together(self.ask(number) for number in self.topic.numbers)

    async def look(self, number: int, below: bytes, **query: bytes | None) -> Answer:
        """Return the answer of a part to `GET /topics/{topic}`, continued by `below`."""
        raw_path = b"/topics/" + quote_from_bytes(self.topic.name, safe="").encode() + below
        path = f"/topics/{self.topic.name.decode()}{below.decode()}"
        scope = {**self.scope, "method": "GET", "path": path, "raw_path": raw_path, "query_string": b""}
        return await self._parts.ask(self.topic, number, with_query(scope, query), self._gathering)

    async def cancel(self, task: str) -> None:
        """Cancel a task of a part."""
        path = f"/tasks/{task}"
        scope = {**self.scope, "method": "DELETE", "path": path, "raw_path": path.encode(), "query_string": b""}
        owners = self._parts.owners
        await owners.ask(owners.placing.owner_of_number(int(task)), scope, self._gathering)


#: Carries a request out; raises MiniqueueError.
Work = Callable[[Whole], Awaitable[Answer]]


async def carry_out(work: Work, parts: Parts, topic: Spread, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer one request as long as its client waits; raises MiniqueueError."""
    with parts.owners.gathering(scope) as gathering:
        answer = await unless_gone(receive, _answer(work, Whole(parts, topic, scope, gathering)))
        if answer is not None:
            await answer.reply()(scope, receive, send)


async def _answer(work: Work, whole: Whole) -> Answer:
    return await work(whole)


def present(answers: Sequence[Answer], absent: frozenset[str] = ABSENT) -> Sequence[Answer]:
    """Return the answers without errors of these codes; the first one if there are no others."""
    return [answer for answer in answers if not (answer.is_error and code_of(answer) in absent)] or answers[:1]


def code_of(error: Answer) -> str:
    """Return the code of an error."""
    code: str = orjson.loads(error.body).get("code", "")
    return code


def merged(answers: Sequence[Answer], merge: Callable[[Sequence[Any]], object]) -> Answer:
    """Return the answer that `merge` makes of the contents of all, or the first error."""
    known = present(answers)
    error = first_error(known)
    return json_answer(merge([orjson.loads(answer.body) for answer in known])) if error is None else error


def json_answer(content: object) -> Answer:
    """Return an answer with JSON."""
    return Answer(200, [(b"content-type", JSON)], orjson.dumps(content))


def last(answers: Sequence[Answer], absent: frozenset[str] = ABSENT) -> Answer:
    """Return the first error, or the last answer."""
    known = present(answers, absent)
    return first_error(known) or known[-1]


def joined(name: str, contents: Iterable[Row]) -> list[Any]:
    """Return the elements of all lists of this name."""
    return [each for content in contents for each in content[name]]
