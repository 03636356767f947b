"""`svc.toml`: its model, its loader and its errors."""
