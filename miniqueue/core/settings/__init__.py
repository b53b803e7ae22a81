"""The settings of topics, and schedules.

Values, their checks, and their texts; must not know what a setting does: the broker applies it.

Reading order: `settings` (all settings with their defaults), `fields` (the text and the check of each), `schedule`.
"""
