"""The settings of topics, and schedules.

Values, their checks, and their texts; must not know what a setting does: the broker applies it.

Reading order: `settings` (all settings with their defaults), `fields` (the text and the check of each), `schema` (what
a JSON Schema may contain), `defaults` (those of new topics), `schedule`.
"""
