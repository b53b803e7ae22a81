"""`miniqueue pipeline load` of JSON lines without a schema: no digit of what is asked for is lost silently."""

import json
from decimal import Decimal

import pytest

from tests.spark.needs import JOBS

pytestmark = JOBS

KEPT = [
    "1",
    "-0.5",
    "1.10",
    "123456789012345678",
    "12345678901234567890123",
    "0.1234567890123456789",
    "9007199254740993.0",
    "0.00000000000000000000000000000000000001",
    "1e5",
    "5.684341886080802e-14",
    "1.7976931348623157e+308",
    "0e-999",
    "null",
]
LOST = [
    "1234567890123456789012345678901234567890",
    "3.14159265358979323846264338327950288419716",
    "0.000000000000000000000000000000000000001",
    "1.23456789012345678e3",
    "1e400",
    "1.8e308",
    "-1e400",
    "1e-400",
    "5e-324",
]


def numbers_of(client, topic: str) -> list:
    messages = client.receive(topic, count=10_000, autoack=True)
    return [json.loads(message.payload, parse_float=Decimal, parse_int=Decimal) for message in messages]


def is_kept(text: str, found: Decimal | None) -> bool:
    """Whether a number is the one that a text means, as a double where the text has an exponent."""
    if text == "null":
        return found is None
    return float(found) == float(text) if "e" in text else found == Decimal(text)


@pytest.mark.parametrize("beside", [[], ['{"id":"text"}']], ids=["alone", "beside text"])
def test_numbers_are_kept_with_all_digits(pipeline, client, tmp_path, beside):
    topic = f"digits-{len(beside)}"
    lines = [f'{{"id":{text},"deep":[{{"x":{text}}}]}}' for text in KEPT]
    (tmp_path / "in.jsonl").write_text("\n".join([*lines, *beside]))
    assert pipeline("load", topic, "-columns", "id,deep", tmp_path / "in.jsonl")[0] == 0
    found = numbers_of(client, topic)[: len(KEPT)]
    assert [one["deep"][0]["x"] for one in found] == [one["id"] for one in found]
    assert [text for one, text in zip(found, KEPT, strict=True) if not is_kept(text, one["id"])] == []


def test_a_number_that_is_the_key_has_all_digits(pipeline, client, tmp_path):
    (tmp_path / "in.jsonl").write_text("\n".join(f'{{"id":{text}}}' for text in KEPT))
    assert pipeline("load", "key-digits", "-key", "id", tmp_path / "in.jsonl")[0] == 0
    keys = {message.payload.decode(): message.key.decode() for message in client.receive("key-digits", count=100)}
    lost = [text for text in KEPT if not is_kept(text, Decimal(key) if (key := keys[f'{{"id":{text}}}']) else None)]
    assert lost == []


@pytest.mark.parametrize(
    "flags", [("-key", "id"), ("-headers", "h=id"), ("-columns", "id")], ids=lambda flags: flags[0]
)
def test_rows_with_numbers_that_would_lose_digits_are_set_aside_and_say_so(pipeline, client, tmp_path, flags):
    topic = f"beyond{flags[0]}"
    long_text = json.dumps({"id": 0.5, "text": "1" * 50 + ' 1e999 "' + "x\\" * 100_000})
    (tmp_path / "in.jsonl").write_text("\n".join([f'{{"id":{text}}}' for text in LOST] + [long_text]))
    code, out, err = pipeline("load", topic, *flags, tmp_path / "in.jsonl")
    assert (code, out.partition(" in ")[0]) == (1, f"{topic}: 1 message published, {len(LOST)} bad rows")
    assert "row 1: it has a number with more digits than can be kept, or out of the range of doubles" in err
    assert [one["id"] for one in numbers_of(client, topic)] == [Decimal("0.5")]


def test_numbers_of_which_nothing_is_made_stay_as_they_are(pipeline, client, tmp_path):
    lines = [f'{{"id":{text}}}' for text in KEPT + LOST]
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    assert pipeline("load", "untouched", tmp_path / "in.jsonl")[0] == 0
    assert [message.payload.decode() for message in client.receive("untouched", count=100)] == lines


@pytest.mark.parametrize(
    "half", ["\\ud800", "\\uDBFFx", "\\udc00", "\\ud800\\ud800", "\\\\\\ud800", "\\ud83d\\\\\\ude00"]
)
def test_half_of_a_surrogate_pair_is_named_as_the_cause(pipeline, client, tmp_path, half):
    topic = f"half-{half.encode().hex()}"
    twice = '{"a":"\\\\ud800","a":"\\ud83d\\ude00"}'
    (tmp_path / "in.jsonl").write_text(f'{{"a":"{half}"}}\n{twice}\n{{"a":"\\ud83d\\ude00\\\\ud800"}}\n')
    code, _, err = pipeline("load", topic, tmp_path / "in.jsonl")
    assert (code, "row 1: it has half of a surrogate pair, which is not text" in err) == (1, True)
    assert "row 2: it is not one JSON object, or has a member twice" in err
    [message] = client.receive(topic, count=10, autoack=True)
    assert json.loads(message.payload) == {"a": "\U0001f600\\ud800"}
