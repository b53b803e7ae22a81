"""The live page: a dashboard for people, on the monitoring port, at `/ui/`.

    /ui/assets/…   files of the page (`files`)           /ui/session    signs in and out (`sessions`, `signing_in`)
    /ui/data/…     read models as JSON (`models`)        /ui/live       a read model as it changes (`live`)
    /ui/api/…      the queue's own HTTP application, under the user of the session (`api`)
    /ui/…          the page itself, whatever view of it the path names

Read `app` first (the routes), then `gate` (who makes a request), the room `models` (what the page shows beyond the
API), and `live`. Everything that changes something is done by the API, so the page can do
nothing that a client cannot.

Knows the broker, `asgi`, `views`, and `security`; must not import `http`, `resp`, or `monitor`: the application of the
queue, and what other parts of the process know, are passed in (`models.facts`). Nothing here is imported unless the
dashboard is on.
"""
