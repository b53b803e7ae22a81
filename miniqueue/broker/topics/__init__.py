"""Administration of topics: creates, changes, pauses, resumes, and deletes them, and puts empty ones to rest.

`admin` does what clients ask for, `rest` what saves memory, `spare` what saves time. The registry of topics is
`engine.topics`, and the settings are in `core.settings`.
This room must not import the rooms that publish, deliver, or inspect: they read the flags that it sets on a topic.
"""
