"""The Board: a diagram of resources, mounts and Doors in which mounts can be edited."""
