"""Parts of JSON need as much memory as they have bytes."""

import tracemalloc

import orjson
import pytest

from miniqueue.wire.json_parts import json_fragment, json_part

COUNT = 1000


@pytest.mark.parametrize("make", [json_part, json_fragment])
def test_what_is_kept_of_many_is_not_the_memory_in_which_they_were_made(make):
    tracemalloc.start()
    try:
        kept = [make({"number": number}) for number in range(COUNT)]
        size_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(kept) == COUNT
    assert size_bytes < 250 * COUNT


def test_a_fragment_is_a_member_of_other_content():
    assert orjson.dumps([json_fragment({"a": 1}), 2]) == b'[{"a":1},2]'
    assert json_part({"a": 1}) == b'{"a":1}'
