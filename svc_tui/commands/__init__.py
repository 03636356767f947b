"""The commands of `svc`, one module per command or group."""
