"""Acts on chosen messages: administrators delete them, move them, make them due; publishers replace them.

Imports the parts of the broker that are below it, and no protocol. Read `orders`, `acts`, then `by_id`; or `task`,
`by_filter`, and `tasks`. `replacing` replaces a message that waits; `holes` limits what all of them settle ahead of
reading.
"""
