"""Faults of a fleet under writes, and the check that nothing acknowledged is lost: `make fleet-faults`."""
