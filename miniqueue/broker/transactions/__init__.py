"""Transactions: publishes and settles, of any topics, that are one commit; all of them are done, or none.

Read `acts` first, the parts of a transaction; then `transactions`, which carries them out; then `joining`, which makes
one act of several; then `checks`, which decides before anything is done, and `work`, which says how much that may be.
This room must not know the protocols.
"""
