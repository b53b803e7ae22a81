"""`miniqueue top`: what the topics of a broker are doing, asked for again and again.

    TOPICS, STATS, TOPIC GET ─▶ sampling ─▶ rows ─▶ ranking ─▶ one page ─▶ the terminal
                                                       ▲
                                     keys ─▶ view ─────┘

A refresh asks for the topics that are shown, and for a bounded number of others in rotation, whatever their number.
Must not know the terminal. Reading order: `rows` (what is known of a topic, and its order), `view` (what a person
looks at, and what keys do), `sampling` (which topics are asked for).
"""
