"""A payload says which message it is, and no other bytes do."""

from tests.durability.clients.messages import id_of, payload_of


def test_each_message_has_bytes_of_its_own_that_tell_its_number():
    assert [id_of(payload_of(id_)) for id_ in range(1, 500)] == list(range(1, 500))


def test_sizes_are_spread_from_small_to_more_than_half_a_block_of_a_log():
    sizes = [len(payload_of(id_)) for id_ in range(1, 2000)]
    assert min(sizes) < 30
    assert max(sizes) > 20_000
    assert sum(size < 200 for size in sizes) > 500


def test_changed_bytes_are_no_message():
    payload = payload_of(7)
    assert id_of(payload[:-1]) is None
    assert id_of(payload + b"x") is None
    assert id_of(payload[:-1] + bytes([payload[-1] ^ 1])) is None
    assert id_of(payload.replace(b"7:", b"8:", 1)) is None
    assert id_of(b"") is None
