"""Administration of topics: creates, changes, pauses, resumes, and deletes them.

The only file is `admin`. The registry of topics is `engine.topics`, and the settings are in `core.settings`.
This room must not import the rooms that publish, deliver, or inspect: they read the flags that it sets on a topic.
"""
