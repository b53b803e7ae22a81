"""Spread topics over HTTP: which part of a topic carries a request out, or how the replies of all parts become one.

    request that names a spread topic ─▶ door ─▶ `routes` ─┬─ one part ─▶ a tunnel ─▶ the owner of the part
                                                           └─ several  ─▶ a tunnel to each ─▶ one reply

The owners know nothing of this: each part is a topic of its own. Its name never leaves the broker.

Knows how the routes of `http` read requests, but not what carries them out.

Read `asking` (how parts are asked), then `routes` (what each route does), then the modules that it names.
"""
