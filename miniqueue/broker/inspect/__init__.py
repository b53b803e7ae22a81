"""Inspection: statistics of topics, their messages, and their logs; it changes nothing that clients can see.

Read `inspect` first, which returns statistics, with `ages`, `rates`, and `due_counting`, which measure them. Then read
`peek` and `peeked`, which show messages, `dead_letters`, and `log`, which reads a partition from any offset. `overview`
shows all topics at once: `survey` makes a row for each, with `known_ages`, `attention` has the rules of what needs
attention, and `history` the points of the last hours.
This room must not import the rooms that publish, deliver, or settle messages; it reads cursors and the store.
"""
