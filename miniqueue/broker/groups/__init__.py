"""Consumer groups: creating, moving and deleting them.

This room must not import the rooms that deliver messages (`consume`, `leases`). Read `groups` first; then
`start_positions`, which determines where a group begins; `cleanup`, which deletes the stored data of groups that were
deleted or moved; and `idle`, which finds groups that no client reads.
"""
