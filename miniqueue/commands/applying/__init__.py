"""`miniqueue apply`: what a file describes, what a broker has, and the changes that make them equal.

    topics.toml ─▶ document ─▶ Described ─┐
                                           ├─▶ plan ─▶ changes ─▶ lines for people, JSON for programs
    the broker  ─▶ reading  ─▶ Existing  ─┘              └────▶ carrying_out ─▶ the broker

Must not know the terminal or the command line. Reading order: `resources` (what both sides consist of), `document` (the
file), `plan` (the differences), `lines` (how a plan is shown), then `reading`, `carrying_out`, and `export`, which use
the client, and `users`, which uses the users file of a broker on this machine.
"""
