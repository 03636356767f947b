"""Execution of guests: admission, instances, limits and metering."""
