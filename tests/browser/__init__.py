"""The page in a real browser, and its scripts in Node.js.

`scripts/` tests the pure scripts without a browser. The other tests start one broker and one Chromium for each module.
"""
