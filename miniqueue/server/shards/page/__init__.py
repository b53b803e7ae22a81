"""The live page of a broker with shards: it shows all of them, whichever process answers.

    a view ─▶ `models` ─▶ each shard that has a part of it ─▶ its `parts`, from its own read models ─▶ `merging`
    a request of a session ─▶ `door` ─▶ the process in which the session began

Read `models` first. Must not know how a read model is made, nor how the page shows it.
"""
