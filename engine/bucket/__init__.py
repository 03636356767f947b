"""The bucket: what a service keeps. Three small Protocols, and a folder that keeps all three."""
