"""Dead letters: moves messages out of their topic that were returned too often, rejected, or expired, or have no room.

Read `dead_letters` first, which decides which messages become dead letters; then `move`, which adds them to another
topic in the same commit.
This room must not import the rooms that publish or deliver. A redrive consumes dead letters, so it is in `consume`.
"""
