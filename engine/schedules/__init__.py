"""Schedules of deployed and developed projects: their state, and the runs of their occurrences."""
