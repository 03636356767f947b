"""Running guests: admission, execution, limits and metering."""
