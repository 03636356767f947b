"""The telemetry Door: guests' structured log records, over OTLP/HTTP, into the project's timeline."""
