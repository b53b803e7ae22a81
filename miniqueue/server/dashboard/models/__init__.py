"""The read models of the dashboard: what the page shows beyond the API, one module for each, as JSON.

Read `model` first (how they are opened and made), then `visible` (what one user sees of all topics), and `facts` (what
is known of the process besides the broker). The others are the models: `overview`, `topics`, `topic`, `charts`, and so
on; `sidebar` has the counts that every page shows.

Knows the broker, `views`, and the errors of `asgi`; knows neither requests nor sessions, and changes nothing.
"""
