"""Alerts to the operator of a service: conditions, repetition rules, and delivery by webhook or Apprise."""
