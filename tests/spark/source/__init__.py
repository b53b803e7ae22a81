"""The data source as it reads: options, offsets, filters and pages of the log, without a session of Spark."""
