import inspect
from contextlib import nullcontext

import pytest

from miniqueue import errors
from miniqueue.broker.runtime.accounts import Memory, Purpose
from miniqueue.server.asgi.replies import EMPTY_REPLY, PIECE_BYTES, Reply, error_reply, status_of
from miniqueue.server.asgi.request import ACCOUNT_KEY

TEXTS = [
    (errors.InvalidTopicError(), 400),
    (errors.InvalidLineError("x"), 400),
    (errors.UnsupportedEncodingError("x"), 415),
    (errors.PayloadTooLargeError(2, 1), 413),
    (errors.requests.SchemaError("/: not JSON"), 422),
    (errors.requests.NoValidatorError(), 503),
    (errors.NotAuthenticatedError(), 401),
    (errors.WrongSecretError(), 401),
    (errors.NotPermittedError("publish"), 403),
    (errors.TooManyAttemptsError(), 429),
    (errors.ReadOnlyError(), 503),
    (errors.FullError(), 507),
    (errors.DrainingError(), 503),
    (errors.OutcomeUnknownError(), 503),
    (errors.StorageError(), 500),
    (errors.CorruptionError("x"), 500),
    (errors.MiniqueueError(), 500),
]


async def sent_by(reply: Reply) -> list:
    sent = []

    async def send(message):
        sent.append(message)

    await reply({"type": "http"}, None, send)
    return sent


@pytest.mark.parametrize(("error", "status"), TEXTS, ids=[type(error).__name__ for error, _ in TEXTS])
async def test_error_has_a_status_and_says_whether_to_try_again(error, status):
    start, body = await sent_by(error_reply(error))
    headers = dict(start["headers"])
    assert start["status"] == status_of(error) == status
    assert body["body"].startswith(b'{"error":"')
    assert headers[b"content-type"] == b"application/json"
    assert headers[b"content-length"] == b"%d" % len(body["body"])
    assert headers.get(b"retry-after") == {503: b"1", 429: b"60"}.get(status)
    assert (b"www-authenticate" in headers) is (status == 401)


def test_every_error_class_has_a_status():
    classes = [cls for _, cls in inspect.getmembers(errors, inspect.isclass)]
    statuses = {400, 401, 403, 404, 409, 410, 413, 415, 422, 429, 500, 503, 504, 507}
    assert {status_of(cls.__new__(cls)) for cls in classes} <= statuses


@pytest.mark.parametrize(
    ("body", "types"), [(b"", [EMPTY_REPLY]), (b"x", ["http.response.start", "http.response.body"])]
)
async def test_reply_without_a_body_is_one_message_where_the_server_knows_it(body, types):
    sent = []

    async def send(message):
        sent.append(message)

    await Reply(201, body)({"type": "http", "extensions": {EMPTY_REPLY: {}}}, None, send)
    assert [message["type"] for message in sent] == types
    assert sent[0]["status"] == 201
    assert (b"content-length", b"%d" % len(body)) in sent[0]["headers"]


@pytest.mark.parametrize("ends_at", [None, 2])
async def test_a_large_body_is_sent_in_pieces_and_charged_once_until_it_is_sent(ends_at):
    """Whether the client reads all of it, or leaves after two pieces."""
    body, account, sent = bytes(3 * PIECE_BYTES + 1), Memory().connect("127.0.0.1"), list[dict]()

    async def send(message):
        sent.append(message)
        if message["type"] == "http.response.body":
            assert account.amounts() == {Purpose.OUTPUT: len(body)}
        if len(sent) == ends_at:
            raise ConnectionResetError

    reply = Reply(200, body)({"type": "http", "state": {ACCOUNT_KEY: account}}, None, send)
    with nullcontext() if ends_at is None else pytest.raises(ConnectionResetError):
        await reply
    pieces = sent[1:]
    assert account.amounts() == {}
    if ends_at is None:
        assert [len(piece["body"]) for piece in pieces] == [PIECE_BYTES, PIECE_BYTES, PIECE_BYTES, 1]
        assert [piece["more_body"] for piece in pieces] == [True, True, True, False]


async def test_a_large_body_is_sent_whole_by_a_server_that_shows_no_accounts():
    _start, only = await sent_by(Reply(200, bytes(3 * PIECE_BYTES)))
    assert len(only["body"]) == 3 * PIECE_BYTES
