"""The stream host: one Spark application whose long-running tasks are the streams (DESIGN 9)."""
