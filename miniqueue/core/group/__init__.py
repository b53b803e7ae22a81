"""Rules over whole cursors, and over the cursors of several partitions or groups.

Pure functions over `GroupCursor`, and a few classes that remember a turn or a wait. Must not know the store, the event
loop, or topics; the broker passes times, limits, and the names of groups.

Reading order: `view` (questions that change nothing), `removing` and `expired` (leasing messages in order to drop
them), `turns` (the partition that delivers next), `growth` (order after partitions were added), `needs` and `holes`
(chunks that no group needs), `assignment` (partitions of members).
"""
