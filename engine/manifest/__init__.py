"""The manifest `svc.toml`: its model, loader, validation and edits."""

MANIFEST = "svc.toml"
