"""Parts of JSON that are kept until the whole is made.

What orjson returns keeps the 4 KiB of memory in which it was made, however small it is: a list of 10,000 topics had 40
MB while it was made. A copy has the size of its content.
"""

import orjson


def json_part(content: object) -> bytes:
    """Return `content` as JSON, in no more memory than it needs."""
    return bytes(memoryview(orjson.dumps(content)))


def json_fragment(content: object) -> orjson.Fragment:
    """Return `content` as a member of other content that becomes JSON later."""
    return orjson.Fragment(json_part(content))
