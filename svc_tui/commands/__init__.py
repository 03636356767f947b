"""The commands of `svc`, one module per group of related commands."""
