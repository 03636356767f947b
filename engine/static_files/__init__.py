"""Static file bundles: names, content types and the bundle format."""
