"""The JSON lines of `miniqueue export` and `miniqueue import`, one module for each kind of line.

Read `messages` first, then `members`, which parses the members of a line, and `attributes`. The modules encode and
parse single lines; they must not know files or stores. orjson parses the JSON; the checks of names, ranges, and unknown
members are written here, because a wrong line must be refused with the name of the member.
"""
