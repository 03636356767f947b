"""Sending of records and metrics to OpenTelemetry collectors, by the exporters of the OpenTelemetry SDK."""
